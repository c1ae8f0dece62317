import { base58 } from '@scure/base'
import { Keypair } from '@solana/web3.js'
import t from 'tap'
import { verifyEd25519 } from '../../../../core/solana/ed25519.ts'
import { parseFeePayerKey } from './feePayers.ts'

const keypair = Keypair.generate()

t.test('both forms of a secret give the same key, which signs for its address', async (t) => {
  const message = Buffer.from('a message')
  for (const secret of [
    base58.encode(keypair.secretKey),
    JSON.stringify([...keypair.secretKey]),
    ` ${JSON.stringify([...keypair.secretKey], null, 2)}\n`,
  ]) {
    const key = parseFeePayerKey(secret)
    t.equal(key.address, keypair.publicKey.toBase58())
    t.ok(verifyEd25519(keypair.publicKey.toBytes(), message, key.sign(message)))
    t.same(key.sign(message), key.sign(message), 'the same bytes each time')
    t.notMatch(JSON.stringify(key), base58.encode(keypair.secretKey))
  }
})

t.test('anything else is refused without being repeated', async (t) => {
  const mixed = Uint8Array.from(keypair.secretKey)
  mixed[40]! ^= 1
  const wrong = [
    '',
    'not base58 0OIl',
    base58.encode(keypair.secretKey.subarray(0, 32)),
    JSON.stringify([...keypair.secretKey.subarray(0, 63)]),
    JSON.stringify([...keypair.secretKey.subarray(0, 63), 256]),
    JSON.stringify([...keypair.secretKey.subarray(0, 63), '1']),
    '[1,2',
    base58.encode(mixed),
  ]
  for (const secret of wrong) {
    const message = messageOf(() => parseFeePayerKey(secret))
    t.match(message, /fee payer key of Solana/)
    if (secret !== '') t.notOk(message.includes(secret.slice(0, 12)))
  }
})

function messageOf(call: () => unknown): string {
  try {
    call()
  } catch (error) {
    return (error as Error).message
  }
  return 'nothing was thrown'
}
