import t from 'tap'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import {
  network,
  newAccount,
  seller,
  signPayment,
  startSettler,
  termsOf,
  usdc,
} from '../../../../test/helpers/chains/evm/settler.ts'
import type { Hex } from '../rpc/nodes.ts'
import { Digests, paymentWithTokensV } from './signedPayment.ts'

/** v as hardware and MPC wallets write it: 0 or 1 where others write 27 or 28. */
const withRecoveryId = (signed: Hex): Hex =>
  `${signed.slice(0, -2)}0${Number.parseInt(signed.slice(-2), 16) - 27}` as Hex
const signatureOf = ({ payload }: PaymentPayload) => payload['signature']

t.test('a payment whose v is 0 or 1 is the same payment as with 27 or 28, and settles', async (t) => {
  const { chain, settler, buyer } = await startSettler(t)
  const terms = termsOf()
  const seen = new Set<string>()
  let sold = 0n
  while (seen.size < 2) {
    let plain: Hex = '0x'
    const payment = await signPayment(buyer, terms, {}, (signed) => withRecoveryId((plain = signed)))
    const usual = { ...payment, payload: { ...payment.payload, signature: plain } }
    const checked = await settler.check(payment, terms)
    if (!checked.ok) return t.fail(checked.message)
    t.strictSame(await settler.check(usual, terms), checked)
    const verified = await settler.verify(payment, terms, checked.identity, { storeId: 'store' })
    if (!verified.ok) return t.fail(verified.message)
    const outcome = await settler.settle(payment, terms, checked.identity, async () => true, verified.hold)
    t.match(outcome, { status: 'settled' })
    sold += 10_000n
    t.equal(await chain.balanceUsdc(seller as Hex), sold)
    seen.add(plain.slice(-2))
  }
})

t.test('only the payer’s own signature is changed', async (t) => {
  const terms = termsOf()
  const digests = new Digests(network, [usdc])
  const account = newAccount()
  const own = await signPayment(account, terms, {}, withRecoveryId)
  t.match(signatureOf(paymentWithTokensV(own, usdc.address.toLowerCase(), digests)), /^0x.{128}1[bc]$/)
  const ofAnother = await signPayment(account, terms, { from: newAccount().address }, withRecoveryId)
  const approvedHash = {
    ...own,
    payload: {
      ...own.payload,
      signature: `0x${'0'.repeat(24)}${account.address.slice(2)}${'0'.repeat(64)}01`,
    },
  }
  const usual = await signPayment(account, terms)
  for (const payment of [ofAnother, approvedHash, usual, { ...own, payload: {} }])
    t.equal(paymentWithTokensV(payment, usdc.address, digests), payment)
  t.equal(paymentWithTokensV(own, seller, digests), own, 'a token that is not known')
})
