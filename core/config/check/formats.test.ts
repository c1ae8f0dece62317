import t from 'tap'
import { formats } from './formats.ts'

const cases = {
  url: {
    good: ['https://a.example', 'redis://127.0.0.1:6379', 'wss://a/b?c'],
    bad: [
      ...[
        '',
        'a.example',
        'https://',
        'http:a',
        'http:///a',
        'https://?a',
        'https://a b',
        'javascript:alert(1)',
      ],
      `https://a${'/'.repeat(2_048)}x`,
    ],
  },
  path: { good: ['./x', '/x y', 'C:\\x'], bad: ['a\0b'] },
  cidr: {
    good: ['10.0.0.0/8', '::1/128', 'fd00::/8', '0.0.0.0/0'],
    bad: ['10.0.0.0', '10.0.0.0/33', '::/129', '10.0.0/8', '10.0.0.0/8/8', 'fe80::1%eth0/64', '/8', 'a/8'],
  },
  'ip-port': {
    good: ['1.1.1.1', '::1', '127.0.0.1:5353', '[::1]:53'],
    bad: ['one.one', '1.1.1.1:', '1.1.1.1:0', '1.1.1.1:65536', '[1.1.1.1', ':53', ''],
  },
  caip2: {
    good: ['eip155:8453', 'solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp'],
    bad: ['base', 'eip155:', 'eip155:0x1', 'solana:mainnet', 'eip155:8453 '],
  },
  decimal: { good: ['1', '0.25', '0'], bad: ['', '.5', '1.', '-1', '1e3', '1,5', ' 1'] },
} satisfies Record<keyof typeof formats, { good: string[]; bad: string[] }>

for (const [name, { good, bad }] of Object.entries(cases)) {
  const { test } = formats[name as keyof typeof formats]
  t.test(`${name} takes what it describes and nothing near it`, (t) => {
    for (const text of good) t.equal(test(text), true, text)
    for (const text of bad) t.equal(test(text), false, JSON.stringify(text))
    t.end()
  })
}
