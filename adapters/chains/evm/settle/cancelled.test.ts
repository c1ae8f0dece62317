import t from 'tap'
import type { PrivateKeyAccount } from 'viem/accounts'
import { encodeFunctionData, parseAbi } from 'viem/utils'
import type { PaymentIdentity, SettlementAttempt } from '../../../../core/domain/payment.ts'
import type { SettleOutcome, Settler } from '../../../../core/ports/chains/settler.ts'
import type { PaymentPayload } from '../../../../core/x402/types.ts'
import {
  newAccount,
  recordOf,
  type SettlerFixture,
  seller,
  signPayment,
  startSettler,
} from '../../../../test/helpers/chains/evm/settler.ts'
import type { Authorization } from '../check/authorization.ts'
import { payCall, transfersIn } from '../check/transferCalls.ts'
import { reasons } from '../reasons.ts'
import type { Hex } from '../rpc/nodes.ts'
import { aggregate3 } from './multicall.ts'

const abi = parseAbi(['function cancelAuthorization(address authorizer, bytes32 nonce, bytes signature)'])
const cancelTypes = {
  CancelAuthorization: [
    { name: 'authorizer', type: 'address' },
    { name: 'nonce', type: 'bytes32' },
  ],
}

interface Paying {
  readonly buyer: PrivateKeyAccount
  readonly payment: PaymentPayload
  readonly identity: PaymentIdentity
}

interface Call {
  readonly to: string
  readonly data: string
}

/** Payments of different buyers, each with enough for one payment. */
async function paymentsOf({ chain, settler, terms }: SettlerFixture, count: number): Promise<Paying[]> {
  const payments: Paying[] = []
  for (let i = 0; i < count; i++) {
    const buyer = newAccount()
    await chain.mintUsdc(buyer.address, 10_000n)
    const payment = await signPayment(buyer, terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) throw new Error(checked.message)
    payments.push({ buyer, payment, identity: checked.identity })
  }
  return payments
}

/** A transaction that any account that has seen the payment may send. */
function transferOf({ chain }: SettlerFixture, { payment }: Paying): Call {
  const { authorization, signature } = payment.payload as {
    readonly authorization: Omit<Authorization, 'signature'>
    readonly signature: Hex
  }
  return payCall(chain.usdcAddress, { ...authorization, signature }, undefined)
}

async function cancelOf({ chain }: SettlerFixture, { buyer, identity }: Paying): Promise<Call> {
  const nonce = identity.nonce as Hex
  const signature = await buyer.signTypedData({
    domain: { name: 'USDC', version: '2', chainId: 84532, verifyingContract: chain.usdcAddress },
    types: cancelTypes,
    primaryType: 'CancelAuthorization',
    message: { authorizer: buyer.address, nonce },
  })
  const args = [buyer.address, nonce, signature] as const
  return {
    to: chain.usdcAddress,
    data: encodeFunctionData({ abi, functionName: 'cancelAuthorization', args }),
  }
}

/** Waits in the pool, behind what is there already. */
async function outsiders({ chain }: SettlerFixture, call: Call): Promise<string> {
  const [from] = await chain.rpc<[Hex]>('eth_accounts')
  return chain.rpc<Hex>('eth_sendTransaction', { from, ...call, gas: '0x1e8480' })
}

/** Verified first, then settled at once, as calls do it. @returns when all of them are on their way */
async function settling(
  { terms }: Pick<SettlerFixture, 'terms'>,
  settler: Settler,
  payments: readonly Paying[],
  kept: SettlementAttempt[],
  meanwhile: () => Promise<unknown> = async () => undefined,
): Promise<SettleOutcome[]> {
  const holds = await Promise.all(
    payments.map(async ({ payment, identity }) => {
      const verified = await settler.verify(payment, terms, identity, { storeId: 'store' })
      if (!verified.ok) throw new Error(verified.message)
      return verified.hold
    }),
  )
  await meanwhile()
  return Promise.all(
    payments.map(({ payment, identity }, i) => {
      const store = async (attempt: SettlementAttempt) => {
        kept[i] = attempt
        return true
      }
      return settler.settle(payment, terms, identity, store, holds[i])
    }),
  )
}

const isSpent = { status: 'failed_final', reason: reasons.nonceUsed }

t.test(
  'what its payer takes back after it was verified is charged to nobody, and over at once',
  async (t) => {
    const fixture = await startSettler(t)
    const { chain, settler } = fixture
    await settler.start([])
    const [one] = (await paymentsOf(fixture, 1)) as [Paying]
    const kept: SettlementAttempt[] = []
    const takeBack = async () => outsiders(fixture, await cancelOf(fixture, one))
    t.match(await settling(fixture, settler, [one], kept, takeBack), [isSpent])
    t.match(await settler.recover([recordOf(one.identity, kept[0]!)]), [isSpent])
    t.equal(await chain.balanceUsdc(seller as Hex), 0n)
    t.match(await settling(fixture, settler, await paymentsOf(fixture, 1), []), [{ status: 'settled' }])
  },
)

for (const [what, takesBack, brings] of [
  ['a payer takes his back', true, false],
  ['somebody else brings all of them', false, true],
  ['a payer takes his back and somebody else brings all of them', true, true],
] as const) {
  for (const index of ['before', 'behind'] as const) {
    t.test(`${what}, in the block of ours and ${index} it`, async (t) => {
      const fixture = await startSettler(t)
      const { chain, rpc, settler } = fixture
      await settler.start([])
      const payments = await paymentsOf(fixture, 4)
      const kept: SettlementAttempt[] = []
      await chain.setAutomine(false)
      let theirs = ''
      const meddle = async () => {
        if (takesBack) await outsiders(fixture, await cancelOf(fixture, payments[1]!))
        const all = aggregate3(payments.map((payment) => transferOf(fixture, payment)))
        if (brings) theirs = await outsiders(fixture, all)
      }
      const isSent = new Promise<void>((resolve) => {
        rpc.onCall((method) => {
          if (method.startsWith('eth_sendRawTransaction')) resolve()
        })
      })
      const isBefore = index === 'before'
      const settled = settling(fixture, settler, payments, kept, isBefore ? meddle : undefined)
      await isSent
      if (!isBefore) await meddle()
      // Until what was sent is in the pool, whichever was asked for first.
      const wanted = Number(takesBack) + Number(brings) + 1
      const waiting = async () => Number((await chain.rpc<{ pending: Hex }>('txpool_status')).pending)
      while ((await waiting()) < wanted) await new Promise((resolve) => setTimeout(resolve, 5))
      await chain.mine()

      const [ours] = kept as [SettlementAttempt]
      t.equal(transfersIn(ours.bytes).length, 4, 'they share a transaction')
      const transaction = isBefore && brings ? theirs : ours.transaction
      const isTaken = isBefore && takesBack
      const expected = payments.map((_, i) =>
        isTaken && i === 1 ? isSpent : { status: 'settled', transaction },
      )
      const outcomes = await settled
      t.match(outcomes, expected)
      t.equal(await chain.balanceUsdc(seller as Hex), isTaken ? 30_000n : 40_000n)
      const events = outcomes.flatMap((one) => (one.status === 'settled' ? [one.event] : []))
      t.equal(new Set(events).size, isTaken ? 3 : 4)
      const records = payments.map(({ identity }, i) => recordOf(identity, kept[i]!))
      t.same(await settler.recover(records), outcomes, 'and whoever looks later finds the same')
    })
  }
}

t.test('what was taken back while nobody ran holds up nobody: its account number is used', async (t) => {
  const fixture = await startSettler(t, { receiptTimeoutMs: 50 })
  const { chain, rpc, settler, another } = fixture
  await settler.start([])
  const payments = await paymentsOf(fixture, 3)
  const kept: SettlementAttempt[] = []
  const heal = rpc.add('eth_sendRawTransaction', { kind: 'refuse' })
  await settling(fixture, settler, payments, kept)
  await settler.close()
  heal()
  for (const payment of payments) await outsiders(fixture, await cancelOf(fixture, payment))

  const next = another({ receiptTimeoutMs: 5_000 })
  await next.start(kept.map((attempt) => ({ ...attempt, bytes: '' })))
  const records = payments.map(({ identity }, i) => recordOf(identity, kept[i]!))
  t.match(await next.recover(records), [isSpent, isSpent, isSpent])
  // They are no longer open in the store. Once two checks have found that, their nonces are filled.
  for (let look = 0; look < 2; look++) await next.keys![0]!.followUp!(async () => [])
  t.match(await settling(fixture, next, await paymentsOf(fixture, 1), []), [{ status: 'settled' }])
  t.equal(await chain.balanceUsdc(seller as Hex), 10_000n)
})
