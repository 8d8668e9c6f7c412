"""Pictures of problems: what is read, what is refused, and that rows keep theirs."""

import io
import json
import struct
import sys
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image, PngImagePlugin

from upside.tasks import Problem, load_task
from upside.tasks.pictures import (
    Drawn,
    PictureBytes,
    PictureError,
    PictureFile,
    blocks,
    check_pictures,
    pictures_of,
    png,
    sheet,
    thumbnail,
)

RED, WHITE = (200, 30, 40), (255, 255, 255)


def encoded(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def picture(size=(12, 10), mode="RGB", colour=RED):
    return Image.new(mode, size, colour)


def load(data):
    return PictureBytes(data, "row 3").load()


def bomb(width, height):
    """A PNG whose header promises that many pixels, with no pixel in it."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def animation(kind):
    frames = [picture(colour=(0, 0, 0)), picture(colour=RED)]
    return encoded(frames[0], kind, save_all=True, append_images=frames[1:])


# ---- one picture ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "corner"),
    [
        (encoded(picture()), RED),
        (encoded(picture(), "BMP"), RED),
        (encoded(picture(), "WEBP", lossless=True), RED),
        (encoded(picture(mode="L", colour=90)), (90, 90, 90)),
        (encoded(picture(mode="1", colour=1)), WHITE),
        (encoded(picture().convert("P", palette=Image.Palette.ADAPTIVE)), RED),
        (encoded(picture(), "GIF"), RED),
        (encoded(picture(mode="RGBA", colour=(*RED, 255))), RED),
        (encoded(picture(mode="RGBA", colour=(0, 0, 0, 0))), WHITE),  # not the black under a transparent diagram
        (encoded(picture(mode="LA", colour=(0, 0))), WHITE),
        (encoded(picture(mode="P", colour=0), transparency=0), WHITE),
    ],
)
def test_what_is_read(data, corner):
    image = load(data)
    assert (image.mode, image.size, image.getpixel((0, 0))) == ("RGB", (12, 10), corner)


def test_jpeg_is_turned_as_its_orientation_says():
    image = picture((16, 8))
    exif = image.getexif()
    exif[0x0112] = 6  # turn by 90 degrees
    assert load(encoded(image, "JPEG", exif=exif)).size == (8, 16)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty, no bytes"),
        (b"not a picture at all", "no picture; give a PNG"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no picture"),
        (encoded(picture((64, 64)).effect_spread(9))[:-60], "damaged or cut off"),
        (encoded(picture((64, 64)), "JPEG")[:300], "damaged|no picture"),
        (encoded(picture())[:20], "damaged|no picture"),
        (animation("GIF"), "animated, 2 frames"),
        (animation("PNG"), "animated, 2 frames"),
        (animation("WEBP"), "animated, 2 frames"),
        (bomb(50_000, 50_000), "over 16777216 pixels"),
        (bomb(6_000, 6_000), "6000 x 6000 pixels, over 16777216"),
        (bomb(2_000_000_000, 2), "pixels"),
        (encoded(picture((1, 1))), "1 x 1 pixels, under 8"),
        (encoded(picture((200, 7))), "200 x 7 pixels, under 8"),
        (encoded(picture(mode="I;16", colour=9)), "mode I;16"),
        (encoded(picture(mode="CMYK", colour=(0, 9, 9, 0)), "JPEG"), "mode CMYK"),
        (encoded(picture(), "TIFF"), "no picture"),
        (encoded(picture(), "WEBP", exif=b"MM\x80*\0\0\0\x08\0\0"), "damaged"),  # its orientation
        (encoded(picture((16, 16)), "ICO"), "no picture"),
    ],
)
def test_what_is_refused(data, message):
    with pytest.raises(PictureError, match=f"^row 3: .*({message})"):
        load(data)


def test_a_text_chunk_that_would_swell_is_refused():
    info = PngImagePlugin.PngInfo()
    info.add_text("note", "x" * (1 << 24), zip=True)  # 16 MB in 16 kB
    with pytest.raises(PictureError, match=r"row 3: damaged"):
        load(encoded(picture(), pnginfo=info))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing.png", "no file 'missing.png'"),
        ("sub", "no file 'sub'"),
        ("../secret.png", "lies outside the data folder"),
        ("sub/../../secret.png", "lies outside the data folder"),
        ("link.png", "lies outside the data folder"),
        ("/etc/passwd", "lies outside the data folder"),
        ("https://example.org/a.png", "URL, which is never fetched"),
        ("data:image/png;base64,AAAA", "URL"),
        ("file:///etc/passwd", "URL"),
        ("", "empty or no path"),
        ("a\0b.png", "empty or no path"),
        ("x" * 5000, "no file"),
        ("\ud800.png", "no file"),
    ],
)
def test_paths_stay_in_the_folder(tmp_path, path, message):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    picture().save(tmp_path / "secret.png")
    (folder / "link.png").symlink_to(tmp_path / "secret.png")
    with pytest.raises(PictureError, match=f"^line 2: .*{message}"):
        PictureFile(folder, path, "line 2").check()


def test_a_link_within_the_folder_is_followed(tmp_path):
    picture().save(tmp_path / "a.png")
    (tmp_path / "b.png").symlink_to("a.png")
    assert PictureFile(tmp_path, "b.png", "line 1").load().size == (12, 10)


# ---- rows -----------------------------------------------------------------------------------------------------------


def rows(tmp_path, *lines):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps({"prompt": "area?", "answer": "3", **line}) + "\n" for line in lines))
    return file


def test_rows_with_pictures(tmp_path):
    (tmp_path / "pictures").mkdir()
    for i, colour in enumerate(["red", "green", "blue"]):
        picture(colour=colour).save(tmp_path / f"pictures/{i}.png")
    file = rows(
        tmp_path,
        {"image": "pictures/0.png"},
        {"image": "pictures/1.png"},  # the same question about another picture: another problem
        {"image": ["pictures/1.png", "pictures/2.png"], "prompt": "<image> or <image>?"},
        {"image": "pictures/0.png"},
    )
    task = load_task(file, image="image", test_share=0)
    problems = sorted(task.problems("train"), key=lambda problem: problem.metadata["row"])
    assert [[image.load().getpixel((0, 0)) for image in p.images] for p in problems] == [
        [(255, 0, 0)], [(0, 128, 0)], [(0, 128, 0), (0, 0, 255)],
    ]  # fmt: skip
    assert task.dropped == {"repeated": 1}
    check_pictures(problems)


def test_a_row_without_pictures_says_so(tmp_path):
    picture().save(tmp_path / "a.png")
    lines = [{"image": []}, {"image": "a.png"}, {"image": ["a.png", "a.png"], "prompt": "<image> or <image>?"}]
    problems = load_task(rows(tmp_path, *lines), image="image", test_share=0).problems("train")
    assert sorted(len(problem.images) for problem in problems) == [0, 1, 2]


def test_train_and_test_share_no_picture_of_rows_with_several(tmp_path):
    for i in range(40):
        picture(colour=(i, 0, 0)).save(tmp_path / f"{i}.png")
    lines = [{"image": [f"{i}.png", f"{i + 1}.png"]} for i in range(0, 40, 2)]
    lines += [{"image": f"{i}.png", "prompt": "colour?"} for i in range(40)]
    task = load_task(rows(tmp_path, *lines), image="image", test_share=0.4)
    train, test = ({i.digest() for p in task.problems(split) for i in p.images} for split in ("train", "test"))
    assert train
    assert test
    assert not train & test


def test_train_and_test_share_no_picture(tmp_path):
    for i in range(20):
        picture(colour=(i, 0, 0)).save(tmp_path / f"{i}.png")
    lines = [{"image": f"{i}.png", "prompt": question} for i in range(20) for question in ("area?", "perimeter?")]
    task = load_task(rows(tmp_path, *lines), image="image", test_share=0.4)
    digests = [{p.images[0].digest() for p in task.problems(split)} for split in ("train", "test")]
    assert digests[0]
    assert digests[1]
    assert not digests[0] & digests[1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({}, "no field 'image'"),
        ({"image": None}, "no picture, it is null"),
        ({"image": 7}, "no picture, it is int"),
        ({"image": "gone.png"}, "no file 'gone.png'"),
        ({"image": "cut.png"}, r"cut\.png.: no picture"),
        ({"image": ["a.png", "gone.png"]}, "picture 2: there is no file"),
        ({"image": ["a.png"] * 17}, "17 pictures, over 16"),
        ({"image": "a.png", "prompt": "<image> and <image>?"}, "2 marks <image> and 1 picture;"),
        ({"image": [], "prompt": "<image>?"}, "field 'image': no pictures; give one for each mark"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, line, message):
    picture().save(tmp_path / "a.png")
    (tmp_path / "cut.png").write_bytes(encoded(picture())[:30])
    with pytest.raises(ValueError, match=rf"mine\.jsonl, line 2.*{message}"):
        load_task(rows(tmp_path, {"image": "a.png"}, line), image="image")


def test_a_file_cut_off_after_its_header_is_found_before_the_run(tmp_path):
    (tmp_path / "cut.png").write_bytes(encoded(picture((64, 64)).effect_spread(9))[:-60])
    problem = load_task(rows(tmp_path, {"image": "cut.png", "id": "p1"}), image="image", id="id", test_share=0)
    with pytest.raises(PictureError, match=r"problem 'p1': .*mine\.jsonl, line 1.*cut\.png.*damaged or cut off"):
        check_pictures(problem.problems("train"))


def test_bytes_in_parquet_as_data_sets_keep_them(tmp_path):
    table = [
        {"prompt": "<image>1?", "answer": "1", "images": [{"bytes": encoded(picture()), "path": "x.png"}]},
        {"prompt": "<image>2?", "answer": "2", "images": [{"bytes": encoded(picture()), "path": None}]},
    ]
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "mine.parquet")
    task = load_task(tmp_path / "mine.parquet", image="images", test_share=0)
    assert [p.images[0].load().size for p in task.problems("train")] == [(12, 10)] * 2
    table[1]["images"][0]["bytes"] = b"broken"
    pq.write_table(pa.Table.from_pylist(table), tmp_path / "mine.parquet")
    with pytest.raises(PictureError, match=r"mine\.parquet, row 2, field 'images': no picture"):
        load_task(tmp_path / "mine.parquet", image="images")


@pytest.mark.parametrize("nested", [False, True])
def test_pictures_of_the_hub(tmp_path, monkeypatch, nested):
    import datasets

    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    kind = datasets.List(datasets.Image()) if nested else datasets.Image()
    features = datasets.Features({"prompt": datasets.Value("string"), "answer": datasets.Value("string"), "pic": kind})
    made = [{"prompt": f"{i}?", "answer": "1", "pic": [picture()] if nested else picture()} for i in range(3)]
    folder = tmp_path / "acme/drawn"
    folder.mkdir(parents=True)
    datasets.Dataset.from_list(made, features=features).to_parquet(folder / "train.parquet")
    task = load_task("hf:acme/drawn", image="pic", test_share=0)
    assert [p.images[0].load().size for p in task.problems("train")] == [(12, 10)] * 3
    assert load_task("hf:acme/drawn", test_share=0).problems("train")[0].images == ()  # left out unless asked for


def test_a_function_may_give_images(tmp_path, monkeypatch):
    (tmp_path / "drawers.py").write_text(
        "from PIL import Image\ndef make():\n    yield {'prompt': 'colour?', 'answer': 'red', 'image': "
        "Image.new('RGB', (9, 9), 'red')}\n    yield {'prompt': 'path?', 'answer': 'red', 'image': 'a.png'}\n"
    )
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PictureError, match=r"row 2, field 'image': the path 'a\.png' without the picture's bytes"):
        load_task("python:drawers:make", image="image", test_share=0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        ("Image.new('CMYK', (9, 9))", "mode CMYK cannot be shown"),
        ("Image.open('cut.png')", "damaged or cut off"),
        ("Image.open('moves.gif')", "animated, 2 frames"),
        ("Image.new('RGB', (0, 0))", "0 x 0 pixels, under 8"),
    ],
)
def test_an_image_of_a_function_is_held_to_the_same_rules(tmp_path, monkeypatch, made, message):
    (tmp_path / "cut.png").write_bytes(encoded(picture((64, 64)).effect_spread(9))[:-60])
    (tmp_path / "moves.gif").write_bytes(animation("GIF"))
    (tmp_path / "painters.py").write_text(
        f"from PIL import Image\ndef make():\n    yield {{'prompt': 'colour?', 'answer': 'red', 'image': {made}}}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "painters", raising=False)
    with pytest.raises(PictureError, match=f"row 1, field 'image': {message}"):
        load_task("python:painters:make", image="image", test_share=0)


def test_an_image_of_a_function_is_turned_as_its_orientation_says():
    image = picture((16, 8))
    exif = image.getexif()
    exif[0x0112] = 6
    turned = Image.open(io.BytesIO(encoded(image, "JPEG", exif=exif)))
    assert pictures_of("image", turned, "row 1", None)[0].load().size == (8, 16)


# ---- prompts and logs -----------------------------------------------------------------------------------------------


def test_blocks():
    text = {"type": "text", "text": "area?"}
    image = {"type": "image"}
    assert blocks("area?", 2) == [image, image, text]
    assert blocks("<image>area?", 1) == [image, text]
    assert blocks("Is <image> in <image>", 2) == [
        {"type": "text", "text": "Is "}, image, {"type": "text", "text": " in "}, image,
    ]  # fmt: skip
    assert blocks("area?", 0) == [text]


def test_a_plain_text_prompt_has_no_pictures():
    with pytest.raises(PictureError, match="problem 'p': a plain-text prompt"):
        Problem("p", "area?", "3", chat=False, images=(PictureBytes(encoded(picture()), "p"),))


def test_names_of_written_pictures_are_those_of_their_pixels():
    name, data = png(picture())
    assert name == png(load(encoded(picture(), "BMP")))[0] != png(picture((10, 12)))[0]
    assert load(data).tobytes() == picture().tobytes()
    assert thumbnail(picture((400, 100))).size == (256, 64)
    assert thumbnail(picture()).size == (12, 10)
    assert sheet([picture(), picture(), picture()], columns=2, scale=2).size == (2 * 26 + 2, 2 * 22 + 2)


def test_drawn_pictures_are_told_apart_by_their_figure():
    from upside.tasks.shapes import Shape

    one, other = Drawn(Shape("grid", (2, 3), 1)), Drawn(Shape("grid", (2, 3), 2))
    assert one.digest() == Drawn(Shape("grid", (2, 3), 1)).digest() != other.digest()
