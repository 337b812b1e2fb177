"""`python -m relexify`, for `torchrun -m` and its kin."""

from relexify.cli import main

if __name__ == "__main__":
    main()
