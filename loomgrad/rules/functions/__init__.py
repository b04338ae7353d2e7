"""Operations in terms of simpler ones that every target has, one file for each subject."""
