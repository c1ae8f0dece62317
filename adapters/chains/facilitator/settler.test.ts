import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { startLocalEvm } from '../../../localnet/evm/startLocalEvm.ts'
import {
  network,
  newAccount,
  recordOf,
  seller,
  signPayment,
} from '../../../test/helpers/chains/evm/settler.ts'
import { start, startFacilitator } from '../../../test/helpers/chains/facilitator/facilitator.ts'
import { paymentFor, setStage, terms } from '../../../test/helpers/chains/facilitator/referenceFacilitator.ts'
import { isOnChain, recoverOne } from '../../../test/helpers/chains/recoverOne.ts'

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
      facilitator.requests.some(({ route }) => route === 'settle'),
      'stored before it is sent',
    )
    return attempts.push(attempt) > 0
  })
  t.match(outcome, { status: 'settled', transaction: /^0x/ })
  t.same(attempts, [{ settler: facilitator.url, bytes: '', transaction: '', sequence: null }])
  t.equal(await chain.balanceUsdc(seller as `0x${string}`), 10_000n)
  t.ok(facilitator.requests.every(({ authorization }) => authorization === 'Bearer x'))

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

t.test('a facilitator is given v as the token takes it', async (t) => {
  const facilitator = await startFacilitator(t, { verify: () => ({ isValid: true }) })
  const settler = await start(t, facilitator.url)
  const payment = await signPayment(newAccount(), terms, {}, (signed) => {
    return `${signed.slice(0, -2)}0${Number.parseInt(signed.slice(-2), 16) - 27}` as `0x${string}`
  })
  const checked = await settler.check(payment, terms)
  if (!checked.ok) return t.fail(checked.message)
  t.match(await settler.verify(payment, terms, checked.identity, { storeId: 'store' }), { ok: true })
  const { body } = facilitator.requests.find(({ route }) => route === 'verify')!
  t.match(body, { paymentPayload: { payload: { signature: /^0x[0-9a-f]{128}1[bc]$/ } } })
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
    rpcUrls: [chain.rpcUrl],
    settleTimeoutMs: 500,
    proofTimeoutMs: 3_600_000,
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
  t.match(await verifyNext(), {
    ok: false,
    transient: true,
    reason: 'payments_in_flight_exceed_balance',
    isPayersDoing: true,
  })
  await chain.mintUsdc(buyer.address, 1_000_000n)
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: true })
  t.match(await verifyNext(), { ok: false, transient: true, reason: 'too_many_payments_in_flight' })
})

t.test('what the facilitator leaves open is in its payer’s way, and in nobody else’s', async (t) => {
  const chain = await startLocalEvm()
  t.teardown(() => chain.close())
  const responses: Record<string, (response: ServerResponse) => unknown> = {
    refused: () => ({ success: false, errorReason: 'insufficient_funds', transaction: '', network }),
    failed: () => ({
      success: false,
      errorReason: 'invalid_exact_evm_transaction_failed',
      transaction: '',
      network,
    }),
    broken: (response) => void response.destroy(),
  }
  for (const [what, respond] of Object.entries(responses)) {
    const facilitator = await startFacilitator(t, {
      verify: () => ({ isValid: true }),
      settle: (_body, response) => respond(response),
    })
    const settler = await start(t, facilitator.url, {
      rpcUrls: [chain.rpcUrl],
      maxInFlight: 4,
      maxInFlightPerPayer: 3,
    })
    const buyer = newAccount()
    await chain.mintUsdc(buyer.address, 30_000n)
    const verify = async (account = buyer) => {
      const paid = await paymentFor(settler, account)
      const { payment, identity } = paid
      return { ...paid, verified: await settler.verify(payment, terms, identity, { storeId: 'store' }) }
    }
    const leaveOpen = async (account = buyer) => {
      const { payment, identity, verified } = await verify(account)
      if (!verified.ok) throw new Error(verified.message)
      const outcome = await settler.settle(payment, terms, identity, async () => true, verified.hold)
      t.match(outcome, { status: 'pending' }, what)
    }
    for (let i = 0; i < 4; i++) await leaveOpen(newAccount())
    await leaveOpen()
    await leaveOpen()
    t.match(await verify(), { verified: { ok: true } }, `${what}: others’ have no place any more`)
    t.match((await verify()).verified, { reason: 'too_many_payments_in_flight' }, 'its own count')
  }
})

t.test('signatures that only the facilitator can judge are not asked for without end', async (t) => {
  const mayAnswer = Promise.withResolvers<void>()
  const facilitator = await startFacilitator(t, {
    verify: async () => {
      await mayAnswer.promise
      return { isValid: false, invalidReason: 'invalid_exact_evm_signature' }
    },
  })
  const settler = await start(t, facilitator.url)
  const junk = await Promise.all(
    Array.from({ length: 200 }, () => signPayment(newAccount(), terms, { from: newAccount().address })),
  )
  const result = junk.map((payment) => settler.check(payment, terms))
  const isAsked = ({ route }: { route: string }) => route === 'verify'
  await sleep(300)
  const most = facilitator.requests.filter(isAsked).length
  t.ok(most > 0 && most <= 32, `${most} of 200 are asked for at once`)
  mayAnswer.resolve()
  const refused = (await Promise.all(result)).filter((one) => !one.ok && one.transient === true)
  t.equal(refused.length, 200 - most, 'and the others may come again')
  await settler.check(junk.at(-1)!, terms)
  t.equal(facilitator.requests.filter(isAsked).length, most + 1)
})

t.test('what the facilitator has called good gives way to nothing that it has not', async (t) => {
  const junk = newAccount()
  const facilitator = await startFacilitator(t, {
    verify: ({ paymentPayload }) => {
      const { authorization } = (paymentPayload as { payload: { authorization: { from: string } } }).payload
      return { isValid: authorization.from !== junk.address, invalidReason: 'insufficient_funds' }
    },
  })
  let aheadMs = 0
  const clock = { now: () => Date.now() + aheadMs }
  const settler = await start(t, facilitator.url, { maxInFlight: 2, clock })
  const verify = async (storeId: string, buyer = newAccount()) => {
    const { payment, identity } = await paymentFor(settler, buyer)
    return { payment, identity, verified: await settler.verify(payment, terms, identity, { storeId }) }
  }
  const held = [await verify('honest'), await verify('honest')]
  aheadMs += 2_100
  t.match(await verify('neighbour'), { verified: { ok: true } }, 'one of a store that has more gives way')
  for (let i = 0; i < 4; i++) t.match(await verify(`junk ${i}`, junk), { verified: { ok: false } })
  t.match(await verify('another'), { verified: { ok: false, reason: 'settler_busy' } }, 'two places are two')
  const begun = new Set<string>()
  for (const { payment, identity, verified } of held) {
    if (!verified.ok) throw new Error(verified.message)
    await settler.settle(payment, terms, identity, async () => !begun.add(identity.key), verified.hold)
  }
  t.equal(begun.size, 1)
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

    const before = facilitator.requests.length
    t.match(await settler.settle(payment, terms, identity, async () => false), {
      status: 'rejected',
      transient: true,
    })
    const broken = settler.settle(payment, terms, identity, () => Promise.reject(new Error('disk full')))
    t.match(await broken, { status: 'rejected', transient: true })
    t.equal(facilitator.requests.length, before)

    facilitator.close()
    const dead = await start(t, facilitator.url)
    const unsent = await dead.settle(payment, terms, identity, async () => true)
    t.match(unsent, { status: 'rejected', transient: true })
    t.match(await dead.verify(payment, terms, identity, { storeId: 'store' }), { ok: false, transient: true })
  },
)

t.test(
  'the local check runs first, and only what no key here can judge is asked of the facilitator',
  async (t) => {
    let verdict: object = { isValid: false, invalidReason: 'invalid_exact_evm_signature' }
    const facilitator = await startFacilitator(t, { verify: () => verdict })
    const settler = await start(t, facilitator.url)
    facilitator.requests.length = 0
    const account = newAccount()
    t.match(settler.check(await signPayment(account, terms, { value: '1' }), terms), { ok: false })
    t.match(settler.check(await signPayment(account, terms), terms), { ok: true })
    t.equal(facilitator.requests.length, 0)

    const forWallet = await signPayment(account, terms, { from: newAccount().address })
    t.match(await settler.check(forWallet, terms), { ok: false, reason: 'invalid_exact_evm_signature' })
    verdict = { isValid: true }
    t.match(await settler.check(forWallet, terms), { ok: true })
    verdict = { isValid: 'yes' }
    t.match(await settler.check(forWallet, terms), { ok: false, transient: true })
    t.match(facilitator.requests[0], {
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
  t.same(settler.offerExtra('anybody', 'exact'), { feePayer })
  await t.rejects(
    start(t, facilitator.url),
    { code: 'settlement_unavailable' },
    'this facilitator has no EVM',
  )
  facilitator.close()
  await t.rejects(start(t, facilitator.url, { network: solana, check }), { code: 'settlement_unavailable' })
  const evm = await start(t, facilitator.url)
  const { host } = new URL(facilitator.url)
  t.match(
    await evm.diagnose(),
    [`the facilitator at ${host} can't be used: cannot connect: the host does not exist`, /without rpcUrls/],
    'on EVM an offer needs nothing of it',
  )
})
