import t from 'tap'
import { tapRelay } from '../helpers/vault/remote/tap.ts'
import { reportOf, startPayingVault } from './helpers/payingVault.ts'
import { startProduct } from './helpers/product.ts'
import { startProxyProcess, startRelayProcess } from './helpers/remoteAgent.ts'

const product = await startProduct(t)
const { chains, payTo } = product
const [evm, solana] = chains.both
const relay = await startRelayProcess(t)
const tapped = await tapRelay(t, relay)
const vault = await startPayingVault(t, chains, ['--relay', tapped.url])
const proxy = await startProxyProcess(t, vault, tapped.url)

t.test('an agent elsewhere buys through its proxy without a key and without a token', async (t) => {
  const cheap = await product.addLink('remote-cheap', '0.01')
  const report = await reportOf(vault.pay(`${cheap}?n=1`, evm, { vault: proxy.url }))
  t.match(report, { outcome: 'paid', isVerified: true, payment: { payer: vault.addresses.evm } })
  t.strictSame(await evm.transfersTo(payTo(evm)), [report.transaction])
})

t.test('above its limit the owner at home is asked, and the agent waits for the answer', async (t) => {
  const dear = await product.addLink('remote-dear', '0.25')
  const paying = vault.pay(`${dear}?n=2`, solana, { vault: proxy.url })
  const question = await vault.question()
  await paying.waitForOutput(`tollgate vault approve ${question.id}`)
  t.strictSame(await solana.transfersTo(payTo(solana)), [])
  await vault.approve(question)
  const report = await reportOf(paying)
  t.match(report, { outcome: 'paid', isVerified: true, payment: { payer: vault.addresses.solana } })
  t.strictSame(await solana.transfersTo(payTo(solana)), [report.transaction])
})

t.test('what the owner denies is not paid', async (t) => {
  const dear = await product.addLink('remote-denied', '0.25')
  const before = await evm.transfersTo(payTo(evm))
  const paying = vault.pay(`${dear}?n=3`, evm, { vault: proxy.url })
  await vault.deny(await vault.question())
  t.match(await reportOf(paying), { outcome: 'vault_refused', exitCode: 10, charged: 'no' })
  t.strictSame(await evm.transfersTo(payTo(evm)), before)
})

t.test('the relay saw none of it', async (t) => {
  t.ok(tapped.messages.length > 10)
  const words = [
    ...['sign-payment', 'payment_header', 'remote-dear', 'remote-cheap', 'apr_', 'USDC', 'shopper', 'Bearer'],
    ...[vault.addresses.evm, vault.addresses.solana, payTo(evm), payTo(solana), product.url],
  ]
  const seen = Buffer.concat(tapped.frames).toString('latin1').toLowerCase()
  for (const word of words) t.notOk(seen.includes(word.toLowerCase()), word)
})

t.test('without its vault the proxy says so, and nothing is paid', async (t) => {
  const cheap = await product.addLink('remote-away', '0.01')
  const before = await evm.transfersTo(payTo(evm))
  await vault.kill()
  const report = await reportOf(vault.pay(`${cheap}?n=4`, evm, { vault: proxy.url }))
  t.match(report, { outcome: 'vault_unavailable', exitCode: 13 })
  t.strictSame(await evm.transfersTo(payTo(evm)), before)
  await vault.start()
  t.equal(await vault.verify(), true)
})
