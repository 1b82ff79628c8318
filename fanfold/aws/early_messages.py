"""When a message that came before what it needs, such as an edit before its post, comes again."""

# The delay after each receive but the last: soon; then when what it needs has failed once and come
# again; at last as late as after four visibility timeouts of PUBLISH. The alarm on late messages
# counts none that were received four times, and allows five minutes for three. How often a message
# is received is the queue's `max_receives` (names.py).
NOT_YET_SECONDS = (10, 30, 350, 1050)
