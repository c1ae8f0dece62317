import { base58 } from '@scure/base'
import t from 'tap'
import { readPrivateKeyText, writePrivateKeyText } from './privateKeyText.ts'

const key = Buffer.from(Array.from({ length: 32 }, (_, i) => i + 200))
const publicKey = Buffer.alloc(32, 9)
const whole = Buffer.concat([key, publicKey])

t.test('a key is read in every form that wallets write', (t) => {
  const hex = key.toString('hex')
  for (const text of [hex, `0x${hex}`, ` 0x${hex.toUpperCase()}\n`])
    t.strictSame(readPrivateKeyText('evm', text), key, text.slice(0, 6))
  for (const [text, bytes] of [
    [base58.encode(whole), whole],
    [JSON.stringify([...whole]), whole],
    [`[ ${[...whole].join(', ')} ]\n`, whole],
    [hex, key],
    [whole.toString('hex'), whole],
  ] as const)
    t.strictSame(readPrivateKeyText('solana', text), bytes)
  t.end()
})

t.test('what is written is read again as the same key', (t) => {
  t.strictSame(readPrivateKeyText('evm', writePrivateKeyText('evm', key, publicKey)), key)
  t.strictSame(readPrivateKeyText('solana', writePrivateKeyText('solana', key, publicKey)), whole)
  t.end()
})

t.test('an address is no key of either family, and is called an address', (t) => {
  const evm = '0x70997970C51812dc3A010C7d01b50e0d17dc79C8'
  const solana = base58.encode(key)
  for (const family of ['evm', 'solana'] as const) {
    for (const [text, lines] of [
      [evm, /got an EVM address\. Nothing was stored/],
      [`${evm.toLowerCase()}\n`, /got an EVM address/],
      [` ${solana}\n`, /got a Solana address\. Nothing was stored/],
      ['11111111111111111111111111111111', /got a Solana address/],
    ] as const)
      t.throws(() => readPrivateKeyText(family, text), { code: 'VALIDATION_ERROR', message: lines }, text)
  }
  t.end()
})

t.test('anything else is refused without being repeated', (t) => {
  const wrong = [
    '',
    'not a key',
    '0xnothex',
    '[1,2,300]',
    '[1,2',
    '[-1]',
    '0OIl',
    'secret'.repeat(300),
    'ab '.repeat(32),
  ]
  for (const family of ['evm', 'solana'] as const) {
    for (const text of wrong) {
      try {
        const read = readPrivateKeyText(family, text)
        t.ok(read.length < 32, `${text.slice(0, 20)} is no key, and its length says so`)
      } catch (error) {
        t.match(error, { code: 'VALIDATION_ERROR' })
        if (text.length > 4) t.notOk(String((error as Error).stack).includes(text))
      }
    }
  }
  t.end()
})
