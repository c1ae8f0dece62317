import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { x402Facilitator } from '@x402/core/facilitator'
import { toFacilitatorEvmSigner } from '@x402/evm'
import { ExactEvmScheme } from '@x402/evm/exact/facilitator'
import t, { type Test } from 'tap'
import { createWalletClient, http, publicActions } from 'viem'
import { mnemonicToAccount } from 'viem/accounts'
import { baseSepolia } from 'viem/chains'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { LOCAL_EVM_MNEMONIC, type LocalEvm, startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import { createEgress } from '../../egress/createEgress.ts'
import { network, newAccount, recordOf, seller, signPayment, termsOf } from '../evm/settler.fixture.ts'
import { isOnChain, recoverOne } from '../lookUpOne.fixture.ts'
import { type Routes, start, startFacilitator } from './facilitator.fixture.ts'

const terms = termsOf()

async function paymentFor(settler: Awaited<ReturnType<typeof start>>, account = newAccount()) {
  const payment = await signPayment(account, terms)
  const checked = await settler.check(payment, terms)
  if (!checked.ok) throw new Error(checked.message)
  return { payment, identity: checked.identity }
}

/** The reference facilitator with a key of the chain. */
async function startReference(t: Test, chain: LocalEvm) {
  const account = mnemonicToAccount(LOCAL_EVM_MNEMONIC, { addressIndex: 5 })
  const client = createWalletClient({
    account,
    chain: baseSepolia,
    transport: http(chain.rpcUrl),
    pollingInterval: 20,
  })
  const signer = toFacilitatorEvmSigner({
    ...client.extend(publicActions),
    address: account.address,
  } as never)
  const facilitator = new x402Facilitator().register(network, new ExactEvmScheme(signer))
  return startFacilitator(t, {
    supported: () => facilitator.getSupported(),
    verify: ({ paymentPayload, paymentRequirements }) =>
      facilitator.verify(paymentPayload, paymentRequirements),
    settle: ({ paymentPayload, paymentRequirements }) =>
      facilitator.settle(paymentPayload, paymentRequirements),
  })
}

/** A chain, the reference facilitator on it, and a buyer who has one USDC. */
async function setStage(t: Test) {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const reference = await startReference(t, chain)
  const buyer = newAccount()
  await chain.mintUsdc(buyer.address, 1_000_000n)
  return { chain, reference, buyer }
}

t.test('the reference facilitator verifies and settles, and the chain proves it', async (t) => {
  const { chain, reference: facilitator, buyer } = await setStage(t)
  const settler = await start(t, facilitator.url, {
    rpcUrls: [chain.rpcUrl],
    headers: { authorization: 'Bearer x' },
  })
  t.same(await settler.diagnose(), [])
  const { payment, identity } = await paymentFor(settler, buyer)
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), { ok: true })

  const attempts: SettlementAttempt[] = []
  const outcome = await settler.settle(payment, terms, identity, async (attempt) => {
    t.notOk(
      facilitator.asked.some(({ route }) => route === 'settle'),
      'stored before it is sent',
    )
    return attempts.push(attempt) > 0
  })
  t.match(outcome, { status: 'settled', transaction: /^0x/ })
  t.same(attempts, [{ settler: facilitator.url, bytes: '', transaction: '', sequence: null }])
  t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n)
  t.ok(facilitator.asked.every(({ authorization }) => authorization === 'Bearer x'))

  const record = recordOf(identity, attempts[0]!)
  t.match(await recoverOne(settler, record), outcome, 'after a crash the chain tells the same')
  const { transaction } = outcome as { transaction: string }
  t.equal(await isOnChain(settler, recordOf(identity, attempts[0]!, transaction)), 'yes')
  t.match(await settler.verify(payment, terms, identity, { storeId: 'store' }), {
    ok: false,
    reason: 'invalid_exact_evm_nonce_already_used',
  })
  await chain.reorg(1)
  t.equal(await isOnChain(settler, recordOf(identity, attempts[0]!, transaction)), 'no')
})

t.test('a facilitator that claims what the chain does not show is not believed', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const facilitator = await startFacilitator(t, {
    settle: () => ({ success: true, transaction: `0x${'ab'.repeat(32)}`, network, payer: '' }),
  })
  const buyer = newAccount()
  await chain.mintUsdc(buyer.address, 1_000_000n)
  const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl], proofTimeoutMs: 100 })
  const { payment, identity } = await paymentFor(settler, buyer)
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'pending' })
  const record = recordOf(identity, { settler: facilitator.url, bytes: '', transaction: '', sequence: null })
  t.match(await recoverOne(settler, record), { status: 'pending' })
  await chain.advanceTime(120)
  t.match(await recoverOne(settler, record), { status: 'failed_final' }, 'expired, and unused on chain')
})

t.test('a call waits for facilitator and chain together no longer than it may', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const facilitator = await startFacilitator(t, {
    settle: () => ({ success: true, transaction: `0x${'ab'.repeat(32)}`, network }),
  })
  const settler = await start(t, facilitator.url, {
    ...{ rpcUrls: [chain.rpcUrl], settleTimeoutMs: 500, proofTimeoutMs: 3_600_000 },
  })
  const { payment, identity } = await paymentFor(settler)
  t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'pending' })
})

t.test(
  'a facilitator that settles and then refuses has settled; one that only refuses leaves it open',
  async (t) => {
    const { chain, reference, buyer } = await setStage(t)
    let settlesFirst = true
    let errorReason = ''
    const facilitator = await startFacilitator(t, {
      async settle(body) {
        const init = { method: 'POST', body: JSON.stringify(body) }
        if (settlesFirst) await (await fetch(`${reference.url}settle`, init)).text()
        return { success: false, errorReason, transaction: '', network }
      },
    })
    const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
    const reasons = [
      'invalid_exact_evm_nonce_already_used',
      'invalid_exact_evm_insufficient_balance',
      'insufficient_funds',
      'invalid_exact_evm_transaction_simulation_failed',
      'invalid_exact_evm_signature',
      'unsupported_scheme',
    ]
    for (errorReason of reasons) {
      settlesFirst = true
      const paid = await paymentFor(settler, buyer)
      const outcome = await settler.settle(paid.payment, terms, paid.identity, async () => true)
      t.match(outcome, { status: 'settled', transaction: /^0x/ }, errorReason)
      settlesFirst = false
      const unpaid = await paymentFor(settler, buyer)
      const open = await settler.settle(unpaid.payment, terms, unpaid.identity, async () => true)
      t.match(open, { status: 'pending', reason: 'settlement_pending' }, errorReason)
    }
    t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n * BigInt(reasons.length))
  },
)

t.test(
  'a facilitator that refuses before its broadcast is mined is not believed: the chain tells',
  async (t) => {
    const { chain, reference, buyer } = await setStage(t)
    const underWay: Promise<unknown>[] = []
    const facilitator = await startFacilitator(t, {
      async settle(body) {
        underWay.push(fetch(`${reference.url}settle`, { method: 'POST', body: JSON.stringify(body) }))
        while ((await chain.rpc<{ pending: string }>('txpool_status')).pending === '0x0') await sleep(5)
        return { success: false, errorReason: 'unsupported_scheme', transaction: '', network }
      },
    })
    const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
    const { payment, identity } = await paymentFor(settler, buyer)
    await chain.setAutomine(false)
    const stored: SettlementAttempt[] = []
    const outcome = await settler.settle(payment, terms, identity, async (one) => stored.push(one) > 0)
    t.match(outcome, { status: 'pending', reason: 'settlement_pending' })
    const record = recordOf(identity, stored[0]!)
    t.match(await recoverOne(settler, record), { status: 'pending' })
    await chain.setAutomine(true)
    await chain.mine()
    await Promise.all(underWay)
    t.match(await recoverOne(settler, record), { status: 'settled', transaction: /^0x/ })
  },
)

t.test(
  'a settlement that never arrived is asked for again when the chain has nothing of it: charged once, asked a few times at most',
  async (t) => {
    const { chain, reference, buyer } = await setStage(t)
    let isDeaf = true
    const answered: Promise<unknown>[] = []
    const facilitator = await startFacilitator(t, {
      settle(body, response) {
        if (isDeaf) return void response.writeHead(502).end('<html>')
        const answer = fetch(`${reference.url}settle`, { method: 'POST', body: JSON.stringify(body) })
        answered.push(answer.then((one) => one.json()))
        return answered.at(-1)
      },
    })
    const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
    const { payment, identity } = await paymentFor(settler, buyer)
    const stored: SettlementAttempt[] = []
    const outcome = await settler.settle(payment, terms, identity, async (one) => stored.push(one) > 0)
    t.match(outcome, { status: 'pending' })
    const record = { ...recordOf(identity, stored[0]!), payload: JSON.stringify(payment) }
    const settles = () => facilitator.asked.filter(({ route }) => route === 'settle')
    const look = (tries: number) => recoverOne(settler, { ...record, tries })
    t.match(await look(0), { status: 'pending' })
    t.equal(settles().length, 1)
    isDeaf = false
    await chain.setAutomine(false)
    t.match(await look(1), { status: 'pending', lookAgainMs: 2_000 })
    while (answered.length === 0) await sleep(5)
    for (const tries of [1, 2, 3, 5, 30]) await look(tries)
    t.equal(settles().length, 2, 'not while it is being asked, and seldom')
    // What is left of its time is less by now, perhaps.
    const asked = settles().map(({ body }): object =>
      JSON.parse(JSON.stringify(body).replace(/("maxTimeoutSeconds":)\d+/g, '$10')),
    )
    t.match(asked[1], asked[0]!, 'the same payment on the same terms')
    await chain.setAutomine(true)
    await chain.mine()
    t.match(await Promise.all(answered), [{ success: true }])
    t.match(await look(4), { status: 'settled' })
    t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n)
  },
)

t.test('a buyer who comes back does not use up the times that a facilitator is asked again', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const facilitator = await startFacilitator(t, {
    settle: (_body, response) => void response.writeHead(502).end('<html>'),
  })
  const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl] })
  const { payment, identity } = await paymentFor(settler, newAccount())
  const attempt = { settler: facilitator.url, bytes: '', transaction: '', sequence: null }
  const record = { ...recordOf(identity, attempt), payload: JSON.stringify(payment) }
  const settles = () => facilitator.asked.filter(({ route }) => route === 'settle').length
  let tries = 0
  /** As often as it is looked up in half a minute when somebody asks for it all the time. */
  const looks = async (ageMs: number, expected: number) => {
    for (let i = 0; i < 15; i++) {
      await recoverOne(settler, { ...record, claimedAtMs: Date.now() - ageMs, tries: tries++ })
      if (i === 2) while (settles() < expected) await sleep(5)
    }
    t.equal(settles(), expected)
  }
  await looks(0, 1)
  await looks(31_000, 2)
  await looks(61_000, 3)
  await looks(120_000, 3)
})

t.test('what waited for a connection to the facilitator and never got one was not sent', async (t) => {
  const waiting: (() => void)[] = []
  const facilitator = await startFacilitator(t, {
    settle: () =>
      new Promise((resolve) =>
        waiting.push(() =>
          resolve({ success: false, errorReason: 'unexpected_error', transaction: '', network }),
        ),
      ),
  })
  const egress = createEgress({ allowPrivateCidrs: ['127.0.0.0/8'] })
  t.teardown(() => egress.close())
  const patient = await start(t, facilitator.url, { settleTimeoutMs: 60_000, egress })
  const hasty = await start(t, facilitator.url, { settleTimeoutMs: 500, egress })
  const settleBy = async (settler: typeof patient) => {
    const { payment, identity } = await paymentFor(settler)
    return settler.settle(payment, terms, identity, async () => true)
  }
  // One after the other until a call finds every connection taken.
  const sent: Promise<unknown>[] = []
  for (let seen = -1; seen < waiting.length; ) {
    seen = waiting.length
    sent.push(settleBy(patient))
    const giveUpAt = performance.now() + 1_000
    while (waiting.length === seen && performance.now() < giveUpAt) await sleep(5)
  }
  const asked = waiting.length
  t.ok(asked > 0 && sent.length === asked + 1, `${asked} connections`)
  const outcomes = await Promise.all(Array.from({ length: 8 }, () => settleBy(hasty)))
  t.ok(outcomes.every(({ status }) => status === 'rejected'))
  t.equal(waiting.length, asked, 'none of them got through')
  const answering = setInterval(() => {
    for (const answer of waiting.splice(0)) answer()
  }, 20)
  t.teardown(() => clearInterval(answering))
  await Promise.all(sent)
})

t.test('a payer’s payments on their way are bounded where somebody else settles, too', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const facilitator = await startFacilitator(t, { verify: () => ({ isValid: true }) })
  const settler = await start(t, facilitator.url, { rpcUrls: [chain.rpcUrl], maxInFlightPerPayer: 4 })
  const buyer = newAccount()
  await chain.mintUsdc(buyer.address, 20_000n)
  const verifyNext = async () => {
    const { payment, identity } = await paymentFor(settler, buyer)
    return settler.verify(payment, terms, identity, { storeId: 'store' })
  }
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: false, transient: true, reason: 'payments_in_flight_exceed_balance' })
  await chain.mintUsdc(buyer.address, 1_000_000n)
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: false, transient: true, reason: 'too_many_payments_in_flight' })
})

t.test('an answer that leaves a doubt leaves the payment open', async (t) => {
  const hash = `0x${'ab'.repeat(32)}`
  const ok = { success: true, transaction: hash, network }
  const raw =
    (text: string, status = 200) =>
    (_: unknown, response: ServerResponse) =>
      void response.writeHead(status).end(text)
  const open: Record<string, Routes[string]> = {
    'a server error': raw('{"success":false,"errorReason":"invalid_payload","transaction":""}', 500),
    'no JSON': raw('<html>'),
    'a list': raw('[]'),
    nothing: raw(''),
    'a cut answer': (_, response) => void response.destroy(),
    'success with an error status': raw(JSON.stringify(ok), 400),
    'success without a transaction': () => ({ ...ok, transaction: '' }),
    'success with an odd transaction': () => ({ ...ok, transaction: '0x12' }),
    'success on another network': () => ({ ...ok, network: 'eip155:8453' }),
    'success for another payer': () => ({ ...ok, payer: '0x00000000000000000000000000000000000000aa' }),
    'success in words': () => ({ ...ok, success: 'true' }),
    pending: () => ({ success: false, errorReason: 'settlement_pending', transaction: hash, network }),
    'a failed transaction': () => ({
      success: false,
      errorReason: 'invalid_exact_evm_transaction_failed',
      transaction: '',
      network,
    }),
    'a refusal that names a transaction': () => ({
      success: false,
      errorReason: 'invalid_exact_evm_signature',
      transaction: hash,
    }),
    'a reason nobody knows': () => ({ success: false, errorReason: 'cosmic_rays', transaction: '' }),
    'no reason': () => ({ success: false, transaction: '' }),
  }
  for (const [what, route] of Object.entries(open)) {
    const facilitator = await startFacilitator(t, { settle: route })
    const settler = await start(t, facilitator.url)
    const { payment, identity } = await paymentFor(settler)
    t.match(await settler.settle(payment, terms, identity, async () => true), { status: 'pending' }, what)
    t.equal(facilitator.asked.filter(({ route }) => route === 'settle').length, 1, 'settle is sent once')
  }
})

t.test(
  'a clear refusal and a request that never left are rejections; the store’s no sends nothing',
  async (t) => {
    const facilitator = await startFacilitator(t, {
      settle: () => ({
        success: false,
        errorReason: 'invalid_exact_evm_token_name_mismatch',
        transaction: '',
        network,
      }),
    })
    const settler = await start(t, facilitator.url)
    const { payment, identity } = await paymentFor(settler)
    const refused = await settler.settle(payment, terms, identity, async () => true)
    t.match(refused, { status: 'rejected', reason: 'invalid_exact_evm_token_name_mismatch' })
    t.notOk((refused as { transient?: boolean }).transient)

    const before = facilitator.asked.length
    t.match(await settler.settle(payment, terms, identity, async () => false), {
      status: 'rejected',
      transient: true,
    })
    const broken = settler.settle(payment, terms, identity, () => Promise.reject(new Error('disk full')))
    t.match(await broken, { status: 'rejected', transient: true })
    t.equal(facilitator.asked.length, before)

    facilitator.close()
    const dead = await start(t, facilitator.url)
    const unsent = await dead.settle(payment, terms, identity, async () => true)
    t.match(unsent, { status: 'rejected', transient: true })
    t.match(await dead.verify(payment, terms, identity, { storeId: 'store' }), { ok: false, transient: true })
  },
)

t.test('without a node the facilitator’s success counts, and a doubt stays open for good', async (t) => {
  const transaction = `0x${'ab'.repeat(32)}`
  const facilitator = await startFacilitator(t, { settle: () => ({ success: true, transaction, network }) })
  const settler = await start(t, facilitator.url)
  const { payment, identity } = await paymentFor(settler)
  t.match(await settler.settle(payment, terms, identity, async () => true), {
    status: 'settled',
    transaction,
  })
  const record = recordOf(
    identity,
    { settler: facilitator.url, bytes: '', transaction: '', sequence: null },
    transaction,
  )
  t.match(await recoverOne(settler, record), { status: 'pending' })
  t.equal(await isOnChain(settler, record), 'unknown')
  t.match(await settler.diagnose(), [/without rpcUrls/])
})

t.test(
  'the local check runs first, and only what no key here can judge is asked of the facilitator',
  async (t) => {
    let verdict: object = { isValid: false, invalidReason: 'invalid_exact_evm_signature' }
    const facilitator = await startFacilitator(t, { verify: () => verdict })
    const settler = await start(t, facilitator.url)
    facilitator.asked.length = 0
    const account = newAccount()
    t.match(settler.check(await signPayment(account, terms, { value: '1' }), terms), { ok: false })
    t.match(settler.check(await signPayment(account, terms), terms), { ok: true })
    t.equal(facilitator.asked.length, 0)

    const forWallet = await signPayment(account, terms, { from: newAccount().address })
    t.match(await settler.check(forWallet, terms), { ok: false, reason: 'invalid_exact_evm_signature' })
    verdict = { isValid: true }
    t.match(await settler.check(forWallet, terms), { ok: true })
    verdict = { isValid: 'yes' }
    t.match(await settler.check(forWallet, terms), { ok: false, transient: true })
    t.match(facilitator.asked[0], {
      body: { x402Version: 2, paymentRequirements: terms, paymentPayload: { accepted: terms } },
    })
  },
)

t.test('Solana offers carry the facilitator’s fee payer, and nothing else of its answer', async (t) => {
  const solana = 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1'
  const feePayer = '4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU'
  const kind = { x402Version: 2, scheme: 'exact', network: solana, extra: { feePayer, payTo: 'mine' } }
  const facilitator = await startFacilitator(t, {
    supported: () => ({ kinds: [null, kind], extensions: [] }),
  })
  const check = () => ({ ok: false, reason: 'x', message: '' }) as const
  const settler = await start(t, facilitator.url, { network: solana, check })
  t.same(settler.offerExtra, { feePayer })
  await t.rejects(
    start(t, facilitator.url),
    { code: 'settlement_unavailable' },
    'this facilitator has no EVM',
  )
  facilitator.close()
  await t.rejects(start(t, facilitator.url, { network: solana, check }), { code: 'settlement_unavailable' })
  const evm = await start(t, facilitator.url)
  t.match(await evm.diagnose(), [/can not be used/, /without rpcUrls/], 'on EVM an offer needs nothing of it')
})
