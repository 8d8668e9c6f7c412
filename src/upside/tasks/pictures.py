"""Pictures of problems: references that load when they are needed, whatever they come from.

A `Picture` is drawn by code (`Drawn`), a file inside a folder of data (`PictureFile`) or the bytes of a data set's row
(`PictureBytes`). `load()` gives 8-bit RGB pixels or raises PictureError, which says whose picture it is, what is wrong
and what to do.

| what | how it is read |
|---|---|
| formats | PNG, JPEG, WebP, GIF, BMP with one frame; more frames are an error |
| RGB | as it is, turned as its EXIF orientation says |
| grey, palette, black and white | as RGB |
| transparency | over white |
| 16-bit grey, float, CMYK, LAB, … | an error: a conversion would change what is seen |
| size | each side from 8 pixels, at most 2**24 pixels and 64 MiB, read off the header before anything is decoded |
| paths | inside the folder of the data file, links followed; absolute paths, `..` out of it and URLs are errors |
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from PIL.Image import Image

MARK = "<image>"
"""Where in a prompt a picture belongs; without marks all pictures come first."""

MIN_SIDE = 8
MAX_PIXELS = 1 << 24
MAX_BYTES = 1 << 26
MOST = 16
"""Pictures of one problem."""
THUMBNAIL = 256
"""Pixels a side that logs keep: the numbers of a diagram 400 wide can still be read, at half of that 5 looks like 6."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
MODES = {"RGB", "L", "1", "P", "RGBA", "LA", "PA"}


class PictureError(ValueError):
    """A picture that cannot be used: whose it is, what is wrong, what to do."""


@runtime_checkable
class Picture(Protocol):
    """A picture that loads on demand; `load` gives the same pixels each time."""

    @property
    def name(self) -> str:
        """What errors and logs call it."""
        ...

    def load(self) -> Image:
        """The picture, 8-bit RGB. Raises PictureError."""
        ...

    def digest(self) -> str:
        """16 hexadecimal digits, the same for the same picture on every machine."""
        ...


class Figure(Protocol):
    """What `Drawn` draws: a value whose `repr` tells it from every other."""

    def draw(self) -> Image: ...


@dataclass(frozen=True)
class Drawn:
    """A picture that code draws: a pure function of the figure."""

    figure: Figure

    @property
    def name(self) -> str:
        return f"drawn {type(self.figure).__name__.lower()}"

    def load(self) -> Image:
        return self.figure.draw()

    def digest(self) -> str:
        return hashlib.sha256(repr(self.figure).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class PictureBytes:
    """An encoded picture. name: whose it is ("mine.parquet, row 3, field 'image'")."""

    data: bytes = field(repr=False)
    name: str

    def load(self) -> Image:
        return decode(self.data, self.name)

    def check(self) -> None:
        """What the header tells, without decoding. Raises PictureError."""
        _opened(self.data, self.name).close()

    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()[:16]


@dataclass(frozen=True)
class PictureFile:
    """A file. folder: what it must lie in, with links followed. path: relative to it. name: whose picture it is."""

    folder: Path
    path: str
    name: str

    @cached_property
    def file(self) -> Path:
        """The file itself. Raises PictureError for one that is not in the folder or not there."""
        text, remedy = self.path, f"give a path relative to {self.folder}, where the data file is"
        if text.startswith("data:"):
            raise PictureError(
                f"{self.name}: {text!r:.40} is a picture as a URL; store its bytes, or write it to a file and {remedy}"
            )
        if "://" in text:
            raise PictureError(f"{self.name}: {text!r:.80} is a URL, which is never fetched; download it and {remedy}")
        if not text.strip() or "\0" in text:
            raise PictureError(f"{self.name}: the path {text!r:.80} is empty or no path; {remedy}")
        root = self.folder.resolve()
        with suppress(OSError, RuntimeError, UnicodeError):  # too long, links in a circle, no Unicode: not there
            found = (root / text).resolve()
            if Path(text).is_absolute() or not found.is_relative_to(root):
                raise PictureError(f"{self.name}: {text!r:.80} lies outside the data folder; {remedy}")
            if found.is_file():
                return found
        raise PictureError(
            f"{self.name}: there is no file {text!r:.80} in {self.folder}; put it there or mend the path"
        )

    def read(self) -> PictureBytes:
        """The file's content."""
        try:
            if self.file.stat().st_size > MAX_BYTES:
                raise PictureError(f"{self.whole_name}: over {MAX_BYTES >> 20} MiB; make it smaller")
            return PictureBytes(self.file.read_bytes(), self.whole_name)
        except OSError as error:
            raise PictureError(
                f"{self.whole_name}: cannot be read ({error.strerror}); put it back or make it readable"
            ) from None

    @property
    def whole_name(self) -> str:
        return f"{self.name} ({self.path:.80})"

    def load(self) -> Image:
        return self.read().load()

    def check(self) -> None:
        """Whether it is there and what its header tells. Raises PictureError."""
        self.read().check()

    def digest(self) -> str:
        return self.read().digest()


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode(data: bytes, name: str) -> Image:
    """Encoded bytes as 8-bit RGB. Raises PictureError as the module's table says."""
    with _opened(data, name) as image:
        return _as_rgb(image, name)


def _as_rgb(image: Image, name: str) -> Image:
    """The pixels of an image that `_check` let pass."""
    from PIL import Image, ImageOps

    try:  # decoders raise OSError, SyntaxError, struct.error, zlib.error, …; so does what reads the EXIF part
        image.load()
        upright = ImageOps.exif_transpose(image)
        if upright.has_transparency_data:
            over = upright.convert("RGBA")
            return Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
        return upright.convert("RGB")
    except Exception as error:
        raise PictureError(f"{name}: damaged or cut off, it cannot be decoded ({error!s:.80}); save it again") from None


def _opened(data: bytes, name: str) -> Image:
    """The picture with its header read and found usable; no pixel is decoded."""
    import warnings

    from PIL import Image

    if not data:
        raise PictureError(f"{name}: empty, no bytes; give a {', '.join(FORMATS)} picture")
    if len(data) > MAX_BYTES:
        raise PictureError(f"{name}: over {MAX_BYTES >> 20} MiB; make it smaller")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=FORMATS)
            frames = _frames(image)
    except Image.DecompressionBombError:
        raise PictureError(f"{name}: over {MAX_PIXELS} pixels by its header; make it smaller") from None
    except Exception as error:
        kind = "no picture" if isinstance(error, Image.UnidentifiedImageError) else f"damaged ({error!s:.80})"
        raise PictureError(f"{name}: {kind}; give a {', '.join(FORMATS)} picture") from None
    _check(image, frames, name)
    return image


def _frames(image: Image) -> int:
    """Pictures in it; a camera's previews (MPO) do not count."""
    return getattr(image, "n_frames", 1) if image.format != "MPO" else 1


def _check(image: Image, frames: int, name: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise PictureError(f"{name}: {width} x {height} pixels, over {MAX_PIXELS} in all; make it smaller")
    if min(width, height) < MIN_SIDE:
        raise PictureError(f"{name}: {width} x {height} pixels, under {MIN_SIDE} a side; give a larger picture")
    if frames != 1:
        raise PictureError(f"{name}: animated, {frames} frames; save the one that is meant as PNG")
    if image.mode not in MODES:
        raise PictureError(f"{name}: mode {image.mode} cannot be shown as RGB unchanged; save it as 8-bit RGB or grey")


# ---- rows and prompts -----------------------------------------------------------------------------------------------


def pictures_of(column: str, value: Any, place: str, folder: Path | None) -> tuple[Picture, ...]:
    """The pictures of a row's field: one or a list of paths, bytes, {"bytes": …, "path": …} as data sets keep them,
    PIL images or Pictures; an empty list is none. place: where the row is; folder: what paths are relative to, None
    where there is none.

    Files and headers are looked at, nothing is decoded. Raises PictureError.
    """
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str | bytes) else [value]
    if len(values) > MOST:
        raise PictureError(f"{place}, field {column!r}: {len(values)} pictures, over {MOST} for one problem")
    names = [
        f"{place}, field {column!r}" + (f", picture {i}" if len(values) > 1 else "") for i in range(1, 1 + len(values))
    ]
    return tuple(_picture(each, name, folder) for each, name in zip(values, names, strict=True))


def _picture(value: Any, name: str, folder: Path | None) -> Picture:
    from PIL import Image

    if isinstance(value, Picture):
        return value
    if isinstance(value, Mapping):
        found = value.get("bytes")
        value = found if found is not None else value.get("path")
    if isinstance(value, Image.Image):
        _check(value, _frames(value), name)
        value = _encoded(_as_rgb(value, name))
    if isinstance(value, str):
        if folder is None:
            raise PictureError(
                f"{name}: the path {value!r:.80} without the picture's bytes; store the bytes in the row"
            )
        made: PictureFile | PictureBytes = PictureFile(folder.absolute(), value, name)
    elif isinstance(value, bytes | bytearray | memoryview):
        made = PictureBytes(bytes(value), name)
    else:
        kind = "null" if value is None else type(value).__name__
        raise PictureError(
            f"{name}: no picture, it is {kind}; give a path, or the bytes of a {', '.join(FORMATS)} file, "
            "or [] for a row without pictures"
        )
    made.check()
    return made


def check_count(prompt: str, pictures: Sequence[Picture], name: str) -> None:
    """PictureError where a prompt has marks `<image>`, but not one for each picture."""
    marks = prompt.count(MARK)
    if pictures and marks not in (0, len(pictures)):
        raise PictureError(
            f"{name}: the prompt has {marks} mark{'s'[: marks != 1]} {MARK} and {len(pictures)} "
            f"picture{'s'[: len(pictures) != 1]}; write one mark for each, or none to put them first"
        )


def blocks(prompt: str, pictures: int) -> list[dict[str, str]]:
    """A prompt as chat templates of vision models take it: {"type": "image"} at each mark, {"type": "text", …} between;
    without marks the pictures come first."""
    text = prompt if MARK in prompt else MARK * pictures + prompt
    first, *rest = text.split(MARK)
    found = [{"type": "text", "text": first}] if first else []
    for part in rest:
        found += [{"type": "image"}, {"type": "text", "text": part}] if part.strip() else [{"type": "image"}]
    return found


def check_pictures(problems: Sequence[Any]) -> None:
    """Decode every picture of the problems once, so that none stops a run midway. Raises PictureError that names the
    problem's id."""
    for problem in problems:
        for picture in problem.images:
            try:
                picture.load()
            except PictureError as error:
                raise PictureError(f"problem {problem.id!r}: {error}") from None


# ---- logs -----------------------------------------------------------------------------------------------------------


def _encoded(image: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def png(image: Image) -> tuple[str, bytes]:
    """(file name, PNG bytes). The name is a hash of size and pixels, so the same picture is written once."""
    image = image.convert("RGB")
    return f"{hashlib.sha256(repr(image.size).encode() + image.tobytes()).hexdigest()[:16]}.png", _encoded(image)


def thumbnail(image: Image, side: int = THUMBNAIL) -> Image:
    """The picture at no more than `side` pixels a side; a smaller one as it is."""
    small = image.convert("RGB")
    small.thumbnail((side, side))
    return small


def sheet(images: Sequence[Image], columns: int, scale: int = 1) -> Image:
    """Pictures side by side in rows of `columns`, enlarged without smoothing, a grey line between."""
    from PIL import Image

    width, height = (scale * max(sizes) for sizes in zip(*(image.size for image in images), strict=True))
    rows = -(-len(images) // columns)
    whole = Image.new("RGB", (columns * (width + 2) + 2, rows * (height + 2) + 2), (150, 150, 150))
    for i, image in enumerate(images):
        large = image.resize((scale * image.width, scale * image.height), resample=0)
        whole.paste(large, (2 + i % columns * (width + 2), 2 + i // columns * (height + 2)))
    return whole
