"""Tables that real engines wrote, and readers that check ours against them."""
