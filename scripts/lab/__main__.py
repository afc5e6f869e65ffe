"""`python -m lab` is the `lab` command."""

try:
    from lab.cli.app import main
except KeyboardInterrupt:  # so early that there is nothing to clean up
    raise SystemExit(130) from None

main()
