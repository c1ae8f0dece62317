import t, { type Test } from 'tap'
import { answerWell } from '../e2e/helpers/api.ts'
import type { Chain } from '../e2e/helpers/chains.ts'
import { reportOf, startPayingVault } from '../e2e/helpers/payingVault.ts'
import { startProduct } from '../e2e/helpers/product.ts'
import { type Restartable, startProxyProcess, startRelayProcess } from '../e2e/helpers/remoteAgent.ts'
import { startVaultTap } from '../e2e/helpers/vaultTap.ts'

const product = await startProduct(t)
const { chains, api, payTo } = product
const [evm, solana] = chains.both
const relay = await startRelayProcess(t)
const vault = await startPayingVault(t, chains, ['--relay', relay.url])
const proxy = await startProxyProcess(t, vault, relay.url)
const dear = await product.addLink('dear', '0.25')
const cheap = await product.addLink('cheap', '0.01')
let calls = 0

const restart = async (one: Restartable | typeof vault) => {
  await one.kill()
  await one.start()
}

/**
 * One purchase while processes are killed. However it goes, it is paid once: one payment left the vault, one transfer is
 * on chain, the seller worked once, the budget counts the price once, and the log is whole.
 */
async function buysOnce(
  t: Test,
  chain: Chain,
  link: string,
  way: { readonly url: string; readonly token?: string },
  happening: (tap: Awaited<ReturnType<typeof startVaultTap>>) => Promise<unknown>,
): Promise<void> {
  const tap = await startVaultTap(t, way.url)
  const state = async () => ({
    transfers: BigInt((await chain.transfersTo(payTo(chain))).length),
    balance: -(await chain.balance(vault.addressOn(chain))),
    calls: BigInt(api.calls.length),
    ...(await vault.used(chain)),
  })
  const before = await state()
  const token = way.token === undefined ? {} : { token: way.token }
  const paying = vault.pay(`${link}?n=${++calls}`, chain, { vault: tap.url, ...token })
  await happening(tap)
  const report = await reportOf(paying)
  t.match(report, { outcome: 'paid', isVerified: true, charged: 'yes' }, JSON.stringify(report.message))
  const price = link === dear ? 250_000n : 10_000n
  t.equal(tap.payments.size, 1, 'one payment left the vault')
  t.strictSame(
    await state(),
    {
      transfers: before.transfers + 1n,
      balance: before.balance + price,
      calls: before.calls + 1n,
      spent: before.spent + price,
      reserved: 0n,
    },
    'paid, worked and counted once',
  )
  t.equal(await vault.verify(), true, 'the log is whole')
}

const local = { url: vault.url, token: vault.token }

t.test('a vault that is killed while its owner is asked still has the question', async (t) => {
  await buysOnce(t, evm, dear, local, async () => {
    const asked = await vault.question()
    await restart(vault)
    const again = await vault.question()
    t.strictSame([again.id, again.decision_hash], [asked.id, asked.decision_hash])
    await vault.approve(again)
  })
})

t.test('a vault that is killed right after the approval still has the answer', async (t) => {
  await buysOnce(t, solana, dear, local, async () => {
    await vault.approve(await vault.question())
    await restart(vault)
  })
})

for (const chain of chains.both)
  t.test(
    `a payment that was lost with the vault is given again, the same one, on ${chain.name}`,
    async (t) => {
      await buysOnce(t, chain, dear, local, async (tap) => {
        const lost = Promise.withResolvers<void>()
        tap.loseNextPayment(() => restart(vault).finally(lost.resolve))
        await vault.approve(await vault.question())
        await lost.promise
      })
    },
  )

for (const chain of chains.both)
  t.test(
    `a payment by the rules that was lost with the vault is not made twice on ${chain.name}`,
    async (t) => {
      const tap = await startVaultTap(t, vault.url)
      const before = { transfers: await chain.transfersTo(payTo(chain)), ...(await vault.used(chain)) }
      tap.loseNextPayment(() => restart(vault))
      const paying = vault.pay(`${cheap}?n=lost-${chain.name}`, chain, { vault: tap.url, token: vault.token })
      t.match(await reportOf(paying), { outcome: 'refused', charged: 'no', message: /Idempotency-Key/ })
      t.equal(tap.payments.size, 1, 'one payment left the vault')
      t.strictSame(
        { transfers: await chain.transfersTo(payTo(chain)), ...(await vault.used(chain)) },
        { ...before, spent: before.spent + 10_000n },
        'it counts as spent, and was not used',
      )
    },
  )

t.test('a vault that is killed while the call is under way is not needed any more', async (t) => {
  const killed = Promise.withResolvers<void>()
  t.teardown(() => api.answerWith(answerWell))
  api.answerWith(async (request, response) => {
    await vault.kill().finally(killed.resolve)
    answerWell(request, response)
  })
  const before = await evm.transfersTo(payTo(evm))
  const paying = vault.pay(`${cheap}?n=${++calls}`, evm)
  await killed.promise
  t.match(await reportOf(paying), { outcome: 'paid', isVerified: true })
  t.equal((await evm.transfersTo(payTo(evm))).length, before.length + 1)
  await vault.start()
})

t.test('relay, proxy and vault are killed one after the other while the owner is asked', async (t) => {
  await buysOnce(t, evm, dear, proxy, async () => {
    const asked = await vault.question()
    for (const one of [relay, proxy, vault]) await restart(one)
    const again = await vault.question()
    t.equal(again.id, asked.id)
    await vault.approve(again)
  })
})

for (const [name, one] of Object.entries({ relay, proxy, vault }))
  t.test(`the ${name} is killed right after the approval`, async (t) => {
    await buysOnce(t, name === 'proxy' ? solana : evm, dear, proxy, async () => {
      await vault.approve(await vault.question())
      await restart(one)
    })
  })

t.test('in the end the books, the chains and the log agree', async (t) => {
  t.strictSame(
    (await product.doctor()).filter(({ ok }) => !ok),
    [],
  )
  const transfers = await Promise.all(chains.both.map((chain) => chain.transfersTo(payTo(chain))))
  t.equal((await product.tollgate.stack.store.purchases.ledgerCheck()).purchases, transfers.flat().length)
  t.equal(calls, transfers.flat().length)
})
