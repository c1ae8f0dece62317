import t from 'tap'
import type { SettlementAttempt } from '../../../core/domain/payment.ts'
import { exactTerms, signAllowance, signPermit, uptoTerms } from '../../../test/helpers/chains/evm/permit2.ts'
import { recordOf, remember, seller, usdc } from '../../../test/helpers/chains/evm/settler.ts'
import { start, startFacilitator } from '../../../test/helpers/chains/facilitator/facilitator.ts'
import { setStage } from '../../../test/helpers/chains/facilitator/referenceFacilitator.ts'
import { recoverOne } from '../../../test/helpers/chains/recoverOne.ts'
import { until } from '../../../test/helpers/rawHttp.ts'
import type { Hex } from '../evm/rpc/nodes.ts'

const store = { storeId: 'store' }

for (const [what, isRead] of [
  ['and the chain proves it', true],
  ['whose word counts without nodes', false],
] as const) {
  t.test(`a payment by upto settles through the reference facilitator, ${what}`, async (t) => {
    const { chain, reference, buyer } = await setStage(t)
    const settler = await start(t, reference.url, isRead ? { rpcUrls: [chain.rpcUrl] } : {})
    t.strictSame(settler.schemes, ['exact', 'upto'])
    const terms = uptoTerms({ settler })
    t.match(terms.extra, { assetTransferMethod: 'permit2', facilitatorAddress: /^0x/ })
    const payment = await signPermit(buyer, terms)
    const checked = await settler.check(payment, terms)
    if (!checked.ok) return t.fail(checked.message)
    const { identity } = checked
    t.match(await settler.verify(payment, terms, identity, store), {
      reason: 'permit2_allowance_required',
      extra: { approval: { to: terms.asset } },
    })
    await chain.allowPermit2(buyer.address)
    const verified = await settler.verify(payment, terms, identity, store)
    if (!verified.ok) return t.fail(verified.message)
    const attempts: SettlementAttempt[] = []
    const charged = { ...terms, amount: '3000' }
    const outcome = await settler.settle(payment, charged, identity, remember(attempts), verified.hold)
    t.match(outcome, { status: 'settled', chargedAtomic: 3_000n, transaction: /^0x/ })
    t.equal(await chain.balanceUsdc(seller as Hex), 3_000n)
    t.match(reference.requests.at(-1), {
      route: 'settle',
      body: {
        paymentRequirements: { scheme: 'upto', amount: '3000' },
        paymentPayload: { accepted: { amount: '10000' } },
      },
    })
    if (!isRead) return
    const record = { ...recordOf(identity, attempts[0]!), scheme: 'upto', chargedAtomic: 3_000n }
    t.match(await recoverOne(settler, { ...record, claimedAtMs: Date.now() }), {
      status: 'settled',
      chargedAtomic: 3_000n,
    })
  })
}

for (const isSponsored of [true, false]) {
  t.test(`a permit for Permit2 is sent only to a facilitator that takes it: ${isSponsored}`, async (t) => {
    const { chain, reference, buyer } = await setStage(t, isSponsored ? ['eip2612GasSponsoring'] : [])
    const settler = await start(t, reference.url, { rpcUrls: [chain.rpcUrl] })
    t.equal(settler.sponsorsAllowance, isSponsored)
    const terms = uptoTerms({ settler })
    const payment = {
      ...(await signPermit(buyer, terms)),
      allowancePermit: await signAllowance(buyer, terms),
    }
    const checked = await settler.check(payment, terms)
    if (!checked.ok) return t.fail(checked.message)
    const { identity } = checked
    const verified = await settler.verify(payment, terms, identity, store)
    if (!isSponsored) return t.match(verified, { reason: 'permit2_allowance_required' })
    if (!verified.ok) return t.fail(verified.message)
    const charged = { ...terms, amount: '3000' }
    t.match(await settler.settle(payment, charged, identity, remember([]), verified.hold), {
      status: 'settled',
      chargedAtomic: 3_000n,
    })
    t.equal(await chain.balanceUsdc(seller as Hex), 3_000n)
  })
}

t.test(
  'a sponsored settlement by exact that never arrived is requested again on the same terms',
  async (t) => {
    const extension = ['eip2612GasSponsoring']
    const { chain, reference, buyer } = await setStage(t, extension)
    let isDeaf = true
    const { url, requests } = await startFacilitator(t, {
      supported: async () => (await fetch(`${reference.url}supported`)).json(),
      async settle(body, response) {
        if (isDeaf) return void response.writeHead(502).end('<html>')
        return (await fetch(`${reference.url}settle`, { method: 'POST', body: JSON.stringify(body) })).json()
      },
    })
    const assets = [{ ...usdc, transferMethod: 'permit2' as const }]
    const settler = await start(t, url, { rpcUrls: [chain.rpcUrl], assets })
    const terms = exactTerms()
    const payment = {
      ...(await signPermit(buyer, terms)),
      allowancePermit: await signAllowance(buyer, terms),
    }
    const checked = await settler.check(payment, terms)
    if (!checked.ok) return t.fail(checked.message)
    const { identity } = checked
    const attempts: SettlementAttempt[] = []
    t.match(await settler.settle(payment, terms, identity, remember(attempts)), { status: 'pending' })
    isDeaf = false
    const payload = JSON.stringify(payment)
    const record = { ...recordOf(identity, attempts[0]!), payload, claimedAtMs: Date.now() }
    t.match(await recoverOne(settler, { ...record, tries: 1 }), { status: 'pending' })
    await until(async () => (await chain.balanceUsdc(seller as Hex)) === 10_000n)
    t.match(await recoverOne(settler, { ...record, tries: 2 }), { status: 'settled' })
    const extras = requests.flatMap(({ route, body }) =>
      route === 'settle'
        ? (body as { paymentRequirements: { extra: object } }).paymentRequirements.extra
        : [],
    )
    t.strictSame(extras, [terms.extra, terms.extra])
  },
)

t.test('a permit for another account than the facilitator’s is refused before it is asked', async (t) => {
  const { reference, buyer } = await setStage(t)
  const settler = await start(t, reference.url)
  const terms = uptoTerms({ settler })
  const requests = reference.requests.length
  const payment = await signPermit(buyer, terms, { facilitator: buyer.address })
  t.match(await settler.check(payment, terms), { ok: false, reason: 'upto_facilitator_mismatch' })
  t.equal(reference.requests.length, requests)
})

t.test('a facilitator that does not name its account does not sell by upto', async (t) => {
  const kind = (scheme: string) => ({ x402Version: 2, scheme, network: 'eip155:84532' })
  const supported = { kinds: [kind('exact'), kind('upto')], extensions: [], signers: {} }
  const { url } = await startFacilitator(t, { supported: () => supported })
  t.strictSame((await start(t, url)).schemes, ['exact'])
})
