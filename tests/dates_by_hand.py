"""Texts that a person wrote, not a generator: dates in forms that are read, and texts that are none."""


def _split(text: str) -> list[str]:
    return [one for line in text.strip().splitlines() for one in line.split(" | ")]


# (text, ISO date)
DATES = [
    (text, iso)
    for text, iso in (
        one.split(" = ")
        for one in _split("""
the fifth of May, 2045 = 2045-05-05 | 1979 07 14 = 1979-07-14 | 16.3.78 = 1978-03-16
六三年五月一日 = 1963-05-01 | Aug-10-1955 = 1955-08-10 | May 5th '45 = 2045-05-05 | 5 May, 45 = 2045-05-05
November the twenty-second, 1963 = 1963-11-22 | twenty-ninth of February 2024 = 2024-02-29
29 February 2000 = 2000-02-29 | Tuesday, the eleventh of September 2001 = 2001-09-11
Sept. 11, 2001 = 2001-09-11 | 20 July 1969 = 1969-07-20 | Jul 20, '69 = 1969-07-20 | 9/11/1989 = 1989-11-09
9. 11. 1989 = 1989-11-09 | 09Nov1989 = 1989-11-09 | 1 Jan 1950 = 1950-01-01 | 31 December 2049 = 2049-12-31
31-12-49 = 2049-12-31 | 1.1.50 = 1950-01-01 | 1997年7月1日 = 1997-07-01 | 一九九七年七月一日 = 1997-07-01
九七年七月一号 = 1997-07-01 | 二〇〇八年八月八日 星期五 = 2008-08-08 | 一九九九年十二月廿日 = 1999-12-20
二零一六年一月卅一日 = 2016-01-31 | 2016年2月29号 = 2016-02-29 | Friday 13 August 2004 = 2004-08-13
Fri 13.8.04 = 2004-08-13 | 2004-Aug-13 = 2004-08-13 | 2004/8/13 = 2004-08-13 | 13/08/04 = 2004-08-13
March 15,1973 = 1973-03-15
""")
    )
]
NO_DATES = _split("""
32 March 2020 | 30 February 2021 | 29 February 2023 | 29/02/1900 | 31 April 2021 | 31.11.99
September 31st, 2003 | the thirty-first of June, 1988 | 0 May 2021 | 00/00/0000 | 2021-00-10 | 2021-13-01
12/25/2021 | 7/31/1999 | 3rd of Octember 2021 | 12 Febtober 1990 | 5 Marchember 2003 | 14 Undecember 1995
Foo 3, 2021 | 3 марта 2021 | 12 декабря 1985 | 3 mars 2021 | 14 juillet 1989 | 3. März 2021 | 24. Dezember 1999
5 de mayo de 2010 | 15 elokuuta 1999 | 1. ledna 2000 | 1989년 11월 9일 | 平成元年一月八日 | १५ अगस्त २०२०
٣ مارس ٢٠٢١ | 3 מרץ 2021 | 1 January 2050 | 1 January 1949 | 14 July 1789 | October 12, 1492 | 31 December 2100
公元1644年4月25日 | 20 July | July 1969 | Monday | 2021 | 五月一日 | next Tuesday | the day after tomorrow
Christmas 2020 | Easter Sunday 1999 | hello | Hello, how are you? | The trophy does not fit in the suitcase
The cat sat on the mat because it was tired | attention is all you need | lorem ipsum dolor sit amet
你好，世界 | 昨天下午三点 | 42 | 3.14159 | 1234567890 | 192.168.0.1 | +44 20 7946 0958 | 10:45 | 23:59:59
2021-03-03T10:15:00Z | 3 March 2021 at noon | from 3 March 2021 to 5 April 2022 | 3-5 March 2021
1 May 2020, 2 May 2020 | 3 March 202 | 3 March 20211 | 33333 | 99/99/9999 | asdfghjkl | qwerty 12345 | !!!???
Version 2.3.21 beta | ISBN 978-3-16-148410-0 | $1,999.99 | 50% | a
""")
