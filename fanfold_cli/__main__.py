"""Let `python -m fanfold_cli` do what the console script `fanfold` does."""

from fanfold_cli.main import main

main()
