"""`python -m upside.cli`, which torchrun and accelerate launch start."""

from upside.cli import main

if __name__ == "__main__":
    main()
