import { randomBytes } from 'node:crypto'
import { base58 } from '@scure/base'
import t from 'tap'
import { canonicalTransaction } from './payment.ts'

const evm = 'eip155:84532'
const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'

t.test('an EVM hash has one spelling, in lower case', async (t) => {
  const hash = `0x${'aB'.repeat(32)}`
  t.equal(canonicalTransaction(evm, hash), hash.toLowerCase())
  const digits = 'ab'.repeat(32)
  for (const text of [
    '',
    digits,
    `0X${digits}`,
    `0x${digits}0`,
    `0x${digits.slice(1)}`,
    `0x${digits}\n`,
    ' ',
  ]) {
    t.equal(canonicalTransaction(evm, text), undefined, text)
  }
})

t.test('a Solana signature is 64 bytes of base58, whatever they are', async (t) => {
  const zeros = new Uint8Array(64)
  const low = Uint8Array.from({ length: 64 }, (_, i) => (i < 63 ? 0 : 1))
  for (const bytes of [zeros, low, new Uint8Array(64).fill(255), randomBytes(64)]) {
    const text = base58.encode(bytes)
    t.equal(canonicalTransaction(solana, text), text)
  }
  const short = base58.encode(new Uint8Array(63).fill(255))
  const long = base58.encode(new Uint8Array(65).fill(1))
  const text = base58.encode(randomBytes(64))
  for (const wrong of [
    '',
    short,
    long,
    `${text} `,
    `0${text.slice(1)}`,
    `0x${'ab'.repeat(32)}`,
    'é'.repeat(80),
  ]) {
    t.equal(canonicalTransaction(solana, wrong), undefined, wrong)
  }
})
