"""The product. The modules of this folder import the standard library only; all may import them."""
