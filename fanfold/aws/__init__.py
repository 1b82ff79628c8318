"""How AWS is called. Imports the modules of `fanfold/`; boto3 and libcurl have one module each."""
