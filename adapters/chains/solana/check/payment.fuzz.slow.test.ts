import { createPrivateKey, sign } from 'node:crypto'
import { base58 } from '@scure/base'
import { ExactSvmScheme } from '@x402/svm/exact/facilitator'
import fc from 'fast-check'
import t from 'tap'
import type { PaymentPayload, PaymentRequirements } from '../../../../core/x402/types.ts'
import {
  addressOf,
  bytesOf,
  dollar2022,
  newCast,
  paymentOf,
  realPayment,
  rulesOf,
  startMintServer,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/solana/payments.ts'
import { readWithKit } from '../../../../test/helpers/chains/solana/secondReader.ts'
import { checkSolanaPayment } from './payment.ts'

const { rpcUrl, close } = await startMintServer()
t.teardown(close)
const cast = newCast()
const rules = rulesOf(cast)
const assets = { token: usdc, 'token-2022': dollar2022 }
const real = {
  token: bytesOf(await realPayment(cast.payer, termsOf(cast, usdc), rpcUrl)),
  'token-2022': bytesOf(await realPayment(cast.payer, termsOf(cast, dollar2022), rpcUrl)),
}
const messageAt = 1 + 2 * 64
const payerKey = createPrivateKey({
  key: Buffer.concat([
    Buffer.from('302e020100300506032b657004220420', 'hex'),
    cast.payer.secretKey.subarray(0, 32),
  ]),
  format: 'der',
  type: 'pkcs8',
})
const check = (bytes: Uint8Array, asset = usdc) =>
  checkSolanaPayment(paymentOf(Buffer.from(bytes).toString('base64')), termsOf(cast, asset), rules)

t.test('a payment with any one byte changed is refused', async (t) => {
  let tried = 0
  for (const program of ['token', 'token-2022'] as const) {
    const bytes = real[program]
    t.ok(check(bytes, assets[program]).ok)
    for (let at = 0; at < bytes.length; at++) {
      for (const flip of [0x01, 0x80, 0xff]) {
        const mutant = Buffer.from(bytes)
        mutant[at]! ^= flip
        if (check(mutant, assets[program]).ok) t.fail(`byte ${at} may be flipped by ${flip}`)
        tried++
      }
    }
  }
  t.ok(tried > 2_000)
})

t.test('a payment with bytes added or taken away anywhere is refused', async (t) => {
  for (let at = 0; at <= real.token.length; at++) {
    for (const more of [0, 1, 0x80, 0xff]) {
      const longer = Buffer.concat([real.token.subarray(0, at), Buffer.of(more), real.token.subarray(at)])
      if (check(longer).ok) t.fail(`a byte ${more} may be put in at ${at}`)
    }
    if (at < real.token.length && check(real.token.subarray(0, at)).ok) t.fail(`it may be cut at ${at}`)
  }
  t.notOk(check(Buffer.concat([real.token, Buffer.alloc(8)])).ok)
})

/** Changes to a message: bytes that are set, inserted or removed. */
const edits = fc.array(
  fc.record({
    kind: fc.constantFrom('set', 'insert', 'remove'),
    where: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
    byte: fc.oneof(fc.integer({ min: 0, max: 255 }), fc.integer({ min: 0, max: 12 })),
  }),
  { minLength: 1, maxLength: 3 },
)

t.test(
  'whatever is accepted, even signed anew after a change, @solana/kit and the public facilitator read in the same way',
  async (t) => {
    let accepted = 0
    const facilitator = publicFacilitator()
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom('token' as const, 'token-2022' as const),
        edits,
        async (program, changes) => {
          let message = real[program].subarray(messageAt)
          for (const { kind, where, byte } of changes) {
            const at = Math.floor(where * message.length)
            const rest = message.subarray(kind === 'insert' ? at : at + 1)
            message = Buffer.concat([
              message.subarray(0, at),
              kind === 'remove' ? Buffer.of() : Buffer.of(byte),
              rest,
            ])
          }
          const signature = sign(null, message, payerKey)
          const bytes = Buffer.concat([Buffer.of(2), Buffer.alloc(64), signature, message])
          const terms = termsOf(cast, assets[program])
          const checked = check(bytes, assets[program])
          if (!checked.ok) return true
          accepted++
          const second = readWithKit(bytes)
          const destination = rules.destinationOf(terms.payTo, rules.assets.get(terms.asset)!)
          return (
            second.feePayer === addressOf(cast.feePayer) &&
            second.payer === checked.identity.payer &&
            second.payer === addressOf(cast.payer) &&
            second.mint === terms.asset &&
            second.destination === base58.encode(destination!) &&
            second.amount === checked.identity.amountAtomic &&
            second.amount === 10_000n &&
            Buffer.compare(second.rewritten, bytes) === 0 &&
            (await facilitator(paymentOf(bytes.toString('base64')), terms))
          )
        },
      ),
      { numRuns: 20_000 },
    )
    t.ok(accepted > 0, `${accepted} changed payments were still exact ones`)
  },
)

/** The facilitator of @x402/svm, on a chain where every simulation succeeds. */
function publicFacilitator() {
  const signer = {
    getAddresses: () => [addressOf(cast.feePayer)],
    simulateTransaction: async () => {},
  }
  const scheme = new ExactSvmScheme(signer as never)
  return async (payment: PaymentPayload, terms: PaymentRequirements): Promise<boolean> => {
    const { isValid } = await scheme.verify({ ...payment, accepted: terms } as never, terms as never)
    return isValid
  }
}

t.test('no payload makes it throw', async () => {
  const anything = fc.oneof(
    fc.anything(),
    fc.string().map((text) => ({ transaction: text })),
    fc
      .uint8Array({ maxLength: 1300 })
      .map((bytes) => ({ transaction: Buffer.from(bytes).toString('base64') })),
    // A plausible head in front of noise reaches the depths of the reader.
    fc.uint8Array({ maxLength: 600 }).map((noise) => ({
      transaction: Buffer.concat([real.token.subarray(0, messageAt + 38), noise]).toString('base64'),
    })),
  )
  fc.assert(
    fc.property(anything, (payload) => {
      const payment = { ...paymentOf(''), payload: payload as Record<string, unknown> }
      return checkSolanaPayment(payment, termsOf(cast, usdc), rules).ok === false
    }),
    { numRuns: 20_000 },
  )
})
