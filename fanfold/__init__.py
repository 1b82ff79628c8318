"""The product. These modules are its ground: standard library only, readable by everybody."""
