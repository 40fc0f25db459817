"""`coordinator certify`: runs a consumer program of any language through rare events, and judges what it did."""
