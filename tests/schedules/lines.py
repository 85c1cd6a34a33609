"""Lines and zones that are easily got wrong."""

from __future__ import annotations

LINES = (
    "0 0 * * *",  # midnight, which some zones skip once a year
    "30 2 * * *",  # within the hour that most zones skip, and repeat
    "30 0 * 3-4,9-11 *",
    "*/30 0-3 * 4,9,10,11 *",  # by the clock, in the hours that are skipped or repeated
    "0-59/30 0-3 * 3,10 *",  # the same at fixed times
    "*/20 2 * 3,10 0",
    "*/10 * 28-31 3,4 fri",
    "15 */6 1,15 * *",  # by the clock, because of the hour
    "5,10-20/5,50 1,2 * 3,4,9,10,11 6,7",
    "0 0-3 * 4,9,10 SUN",
    "7/20 4 1 */2 *",  # from 7 on, every 20
    "10 */8 * */5 *",
    "*/7 23 31 * *",
    "45 23 28-31 * *",
    "59 23 31 12 *",
    "0 0 1 1 *",
    "0 0 29 2 *",  # once in four years
    "0 0 31 * 0",  # the 31st or a Sunday
    "0 12 13 * 5",  # the 13th or a Friday
    "0 12 */13 * 5",  # the 1st, 14th or 27th that is a Friday
    "0 12 13 * */5",  # the 13th that is a Sunday or a Friday
    "0 9 1-7 * 1",
    "30 8 L * *",
    "30 8 LW * *",
    "30 1 L,15 * *",
    "0 18 * * 5L",
    "0 18 * * MON#1",
    "0 18 * * 1#5",
    "0 22-23 * * 7",
    "0 6 * jan,jul mon-fri",
)

ZONES = (
    "America/New_York",  # at two, by an hour
    "Europe/London",  # at one
    "Australia/Lord_Howe",  # by half an hour
    "Africa/Cairo",  # there is a day without midnight, and one with an hour before midnight that comes twice
    "America/Havana",  # midnight is skipped, and comes twice
    "Africa/Casablanca",  # back for a month, and forth again
)
