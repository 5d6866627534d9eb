"""python -m attncli"""

from attncli.cli.app import main

if __name__ == "__main__":
    main()
