import { base58 } from '@scure/base'
import t, { type Test } from 'tap'
import type { PaymentRecord } from '../../../core/domain/payment.ts'
import { readWireTransaction } from '../../../core/solana/wire.ts'
import type { PaymentPayload } from '../../../core/x402/types.ts'
import { samplePayment } from '../../../test/contracts/samples.ts'
import { type Asked, start, startFacilitator } from '../../../test/helpers/chains/facilitator/facilitator.ts'
import { isOnChain, recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import {
  addressOf,
  network,
  realPayment,
  termsOf,
  usdc,
} from '../../../test/helpers/chains/solana/payments.ts'
import { setStage } from '../../../test/helpers/chains/solana/stage.ts'
import { sendSolana } from '../../../test/helpers/localnet/sendToken.ts'
import { parseFeePayerKey } from '../solana/settle/feePayers.ts'
import { cosign } from '../solana/settle/transaction.ts'
import type { RemoteSettlerOptions } from './settler.ts'

/** A chain, and a facilitator that signs and sends. `answer` changes the facilitator's response. */
async function stageWith(
  t: Test,
  respond: (signature: string) => unknown,
  isSent = true,
  more: Partial<RemoteSettlerOptions> = {},
) {
  const stage = await setStage()
  t.teardown(stage.close)
  const { chain, cast } = stage
  const key = parseFeePayerKey(base58.encode(cast.feePayer.secretKey))
  const kind = { x402Version: 2, scheme: 'exact', network, extra: { feePayer: key.address } }
  const facilitator = await startFacilitator(t, {
    supported: () => ({ kinds: [kind], extensions: [] }),
    async settle({ paymentPayload }: Asked) {
      const { payload } = paymentPayload as { payload: { transaction: string } }
      const signed = cosign(readWireTransaction(Buffer.from(payload.transaction, 'base64'))!, key)
      const params = [signed.base64, { encoding: 'base64', skipPreflight: true }]
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'sendTransaction', params })
      const headers = { 'content-type': 'application/json' }
      if (isSent) await fetch(chain.rpcUrl, { method: 'POST', headers, body })
      return respond(signed.signature)
    },
  })
  let ahead = 0
  const settler = await start(t, facilitator.url, {
    network,
    assets: [usdc],
    rpcUrls: [stage.rpc.url],
    proofTimeoutMs: 300,
    clock: { now: () => Date.now() + ahead },
    ...more,
  })
  const terms = termsOf(cast, usdc)
  const payment = await realPayment(cast.payer, terms, chain.rpcUrl)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  const { identity } = checked
  const record = (transaction: string | null = null): PaymentRecord =>
    samplePayment(identity, {
      payload: JSON.stringify(payment satisfies PaymentPayload),
      attempt: { settler: facilitator.url, bytes: '', transaction: '', sequence: null },
      transaction,
    })
  const settle = () => settler.settle(payment, terms, identity, async () => true)
  return {
    ...stage,
    settler,
    settle,
    record,
    identity,
    sold: () => chain.balanceToken(usdc.address, addressOf(cast.seller)),
    later: (ms: number) => {
      ahead += ms
    },
  }
}

t.test('what the facilitator says is settled counts when the chain has this very message', async (t) => {
  const { settle, settler, record, sold } = await stageWith(t, (transaction) => ({
    success: true,
    transaction,
    network,
  }))
  const outcome = await settle()
  t.match(outcome, { status: 'settled' })
  t.equal(sold(), 10_000n)
  const { transaction } = outcome as { transaction: string }
  t.equal(await isOnChain(settler, record(transaction)), 'yes')
  t.same(await settler.diagnose(), [])
})

t.test('an answer that was lost is made good by the chain: the payer’s list holds the message', async (t) => {
  let signature = ''
  const { settle, settler, record, sold } = await stageWith(t, (transaction) => {
    signature = transaction
    return { success: 'perhaps' }
  })
  t.match(await settle(), { status: 'settled', transaction: signature })
  t.match(await recoverOne(settler, record()), { status: 'settled', transaction: signature })
  t.equal(sold(), 10_000n)
})

t.test('another transaction of the payer proves nothing', async (t) => {
  const other = await stageWith(t, (transaction) => ({ success: true, transaction, network }))
  const first = (await other.settle()) as { transaction: string }
  const terms = termsOf(other.cast, usdc)
  const payment = await realPayment(other.cast.payer, terms, other.chain.rpcUrl)
  const checked = await other.settler.check(payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  const named = { ...other.record(), ...checked.identity, payload: JSON.stringify(payment) }
  const attempt = { ...named.attempt!, transaction: first.transaction }
  t.match(await recoverOne(other.settler, { ...named, attempt }), { status: 'pending' })
})

t.test('whatever else the payer signs is read once, so that it can not keep anybody busy', async (t) => {
  const { settler, settle, record, chain, cast, rpc } = await stageWith(
    t,
    () => ({ success: 'perhaps' }),
    false,
  )
  t.match(await settle(), { status: 'pending' })
  for (let i = 0; i < 12; i++) await sendSolana(chain, [cast.payer], [])
  const open = record()
  const look = async () => {
    rpc.resetCounters()
    t.match(await recoverOne(settler, open), { status: 'pending' })
    return rpc.calls('getTransaction')
  }
  const first = await look()
  t.ok(first >= 12, String(first))
  t.equal(await look(), 0)
  await sendSolana(chain, [cast.payer], [])
  const next = await look()
  t.ok(next > 0 && next < first, `${next}: only what is new`)
})

t.test(
  'a look at an open payment reads a bounded number of transactions, and goes on the next time',
  async (t) => {
    let signature = ''
    const { settler, settle, record, chain, cast, rpc } = await stageWith(t, (transaction) => {
      signature = transaction
      return { success: 'perhaps' }
    })
    const lift = rpc.add('*', { kind: 'http-status', status: 503 })
    t.match(await settle(), { status: 'pending' })
    lift()
    for (let i = 0; i < 130; i++) await sendSolana(chain, [cast.payer], [])
    const read: number[] = []
    const look = async () => {
      rpc.resetCounters()
      const { status } = await recoverOne(settler, record())
      read.push(rpc.calls('getTransaction'))
      return status
    }
    t.equal(await look(), 'pending')
    t.equal(await look(), 'settled')
    t.equal(read[0], 100)
    t.ok(read[1]! >= 31 && read[1]! < 100, String(read))
    t.match(await recoverOne(settler, record()), { transaction: signature })
  },
)

t.test('a payment that was never sent is final once its block hash is out of use, not before', async (t) => {
  const { settle, settler, record, chain, later, sold } = await stageWith(
    t,
    () => ({ success: 'perhaps' }),
    false,
  )
  t.match(await settle(), { status: 'pending' })
  const open = record()
  t.match(await recoverOne(settler, open), { status: 'pending' })
  later(100_000)
  t.match(await recoverOne(settler, open), { status: 'pending' }, 'the clock alone decides nothing')
  chain.advanceSlots(400)
  t.match(await recoverOne(settler, open), { status: 'failed_final', reason: 'transaction_expired' })
  t.equal(await isOnChain(settler, open), 'no')
  t.match(
    await recoverOne(settler, { ...open, payload: '{}' }),
    { status: 'pending' },
    'without its block hash nobody can tell',
  )
  t.equal(sold(), 0n)
})

t.test('what a node lists and can not show may be the payment: it is not called expired', async (t) => {
  let signature = ''
  const { settle, settler, record, chain, rpc, later, sold } = await stageWith(t, (transaction) => {
    signature = transaction
    return { success: 'perhaps' }
  })
  // As behind a load balancer, where one node returns transactions and another lists them.
  const lift = rpc.add('getTransaction', { kind: 'result', result: null })
  t.match(await settle(), { status: 'pending' })
  chain.advanceSlots(400)
  later(100_000)
  t.match(await recoverOne(settler, record()), { status: 'pending' })
  t.equal(await isOnChain(settler, record(signature)), 'unknown')
  lift()
  t.match(await recoverOne(settler, record()), { status: 'settled', transaction: signature })
  t.equal(sold(), 10_000n)
})

t.test(
  'payments of one payer cost one list, and those of one block hash one question whether it expired',
  async (t) => {
    const { settler, settle, record, chain, cast, rpc, later } = await stageWith(
      t,
      () => ({ success: 'no' }),
      false,
    )
    await settle()
    const terms = termsOf(cast, usdc)
    const another = async () => {
      const payment = await realPayment(cast.payer, terms, chain.rpcUrl)
      const checked = await settler.check(payment, terms)
      if (!checked.ok) throw new Error(checked.message)
      return { ...record(), ...checked.identity, payload: JSON.stringify(payment) }
    }
    const open = [record(), ...(await Promise.all(Array.from({ length: 30 }, another)))]
    const look = async () => {
      rpc.resetCounters()
      const outcomes = await settler.recover(open)
      return [[...new Set(outcomes.map(({ status }) => status))], rpc.calls('getSignaturesForAddress')]
    }
    t.same(await look(), [['pending'], 1])
    later(100_000)
    chain.advanceSlots(400)
    t.same(await look(), [['failed_final'], 2], 'and one as of the block that has forgotten it')
    t.equal(rpc.calls('isBlockhashValid'), 2)
    t.equal(rpc.calls('getFirstAvailableBlock'), 1)
  },
)
