import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import t from 'tap'
import { connectMcp } from '../helpers/admin-api/mcp/connectMcp.ts'
import { startBrowser } from '../helpers/vault/browser.ts'
import { present } from './helpers/buyers.ts'
import { runTollgate } from './helpers/child.ts'
import { reportOf, startPayingVault } from './helpers/payingVault.ts'
import { startProduct } from './helpers/product.ts'

const product = await startProduct(t)
const { chains, api, payTo } = product
const vault = await startPayingVault(t, chains, ['--mode', 'http-mcp'])
const cheap = await product.addLink('cheap', '0.01')
const dear = await product.addLink('dear', '0.25')
const tooExpensive = await product.addLink('too-dear', '1.5')

for (const chain of chains.both) {
  const buyer = vault.addressOn(chain)
  const state = async () => ({
    transfers: (await chain.transfersTo(payTo(chain))).length,
    calls: api.calls.length,
    balance: await chain.balance(buyer),
    ...(await vault.used(chain)),
  })

  t.test(`below its limit an agent without a key buys on ${chain.name}, and nobody is asked`, async (t) => {
    const before = await state()
    const report = await reportOf(vault.pay(`${cheap}?n=${chain.name}-1`, chain))
    t.match(report, { outcome: 'paid', exitCode: 0, isVerified: true, charged: 'yes', attempts: 1 })
    t.match(report.payment, { payer: buyer, network: chain.network, amount: '0.01' })
    t.match(report.response.body, { data: { target: /\/cheap\?n=/ }, _svc: { purchaseId: String } })
    t.ok((await chain.transfersTo(payTo(chain))).includes(report.transaction))
    t.strictSame(await state(), {
      transfers: before.transfers + 1,
      calls: before.calls + 1,
      balance: before.balance - 10_000n,
      spent: before.spent + 10_000n,
      reserved: 0n,
    })
    t.equal((await vault.signings()).at(-1), 'AUTO_APPROVED')
  })

  t.test(`above it nothing moves on ${chain.name} until the owner approves`, async (t) => {
    const before = await state()
    const paying = vault.pay(`${dear}?n=${chain.name}-2`, chain)
    const question = await vault.question()
    await paying.waitForOutput(`Waiting for the owner: tollgate vault approve ${question.id}`)
    t.match(question, { amount: '0.25', currency: 'USDC', agent: 'shopper', opaque: false })
    t.match(question.effects.join(' '), new URL(dear).host)
    t.strictSame(await state(), { ...before, reserved: 250_000n }, 'the money is held, and still there')
    await vault.approve(question)
    const report = await reportOf(paying)
    t.match(report, { outcome: 'paid', isVerified: true, payment: { amount: '0.25' } })
    t.strictSame(await state(), {
      transfers: before.transfers + 1,
      calls: before.calls + 1,
      balance: before.balance - 250_000n,
      spent: before.spent + 250_000n,
      reserved: 0n,
    })
  })

  t.test(`what the owner denies, or the rules never allow, is not paid on ${chain.name}`, async (t) => {
    const before = await state()
    const denied = vault.pay(`${dear}?n=${chain.name}-3`, chain)
    await vault.deny(await vault.question())
    t.match(await reportOf(denied), { outcome: 'vault_refused', exitCode: 10, charged: 'no' })
    const refused = await reportOf(vault.pay(`${tooExpensive}?n=${chain.name}-4`, chain))
    t.match(refused, { outcome: 'above_cap', exitCode: 4 }, "the command's own cap comes first")
    t.strictSame(await state(), before)
  })
}

for (const chain of chains.both)
  t.test(
    `a buyer that is killed goes on with the saved payment on ${chain.name}, without the vault`,
    async (t) => {
      const before = { transfers: await chain.transfersTo(payTo(chain)), signings: await vault.signings() }
      const buying = vault.pay(`${cheap}?n=${chain.name}-killed`, chain)
      await buying.waitForOutput('is stored in ')
      buying.signal('SIGKILL')
      await buying.exited
      const [, file] = /is stored in (\S+\.json) and sent/.exec(buying.stderr())!
      const rpcUrl = chain.name === 'evm' ? chains.evm.rpcUrl : chains.solana.rpcUrl
      const resumed = await reportOf(runTollgate(t, ['pay', '--resume', file!, '--rpc', rpcUrl]))
      t.match(resumed, { outcome: 'paid', isVerified: true, charged: 'yes' })
      t.strictSame(await chain.transfersTo(payTo(chain)), [...before.transfers, resumed.transaction])
      t.equal((await vault.signings()).length, before.signings.length + 1, 'signed once')
    },
  )

t.test("the owner approves with a click on the vault's page, and the call is paid", async (t) => {
  const browser = await startBrowser(t)
  if (browser === undefined) return
  const [chain] = chains.both
  const before = await chain.transfersTo(payTo(chain))
  const paying = vault.pay(`${dear}?n=click`, chain)
  const question = await vault.question()
  const link = await vault.owner.call<{ url: string }>('POST', '/v1/vault/owner/links', {})
  const page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(link.url)
  const card = page.getByRole('article', { name: 'What shopper asks for' })
  await card.getByText(`Send 0.25 USDC to ${question.recipient}`).first().waitFor()
  t.strictSame(await chain.transfersTo(payTo(chain)), before, 'nothing has moved')
  await card.getByRole('button', { name: 'Approve' }).click()
  const report = await reportOf(paying)
  t.match(report, { outcome: 'paid', isVerified: true, payment: { amount: '0.25' } })
  t.strictSame(await chain.transfersTo(payTo(chain)), [...before, report.transaction])
})

for (const chain of chains.both)
  t.test(
    `an MCP client gets the payment as a tool's result and pays on ${chain.name} with plain fetch`,
    async (t) => {
      const client = new Client({ name: 'shopper', version: '1.0.0' })
      const requestInit = { headers: { authorization: `Bearer ${vault.token}` } }
      await client.connect(
        new StreamableHTTPClientTransport(new URL('/mcp', vault.url), { requestInit }) as Transport,
      )
      t.teardown(() => client.close())
      await client.listTools()
      const target = `${cheap}?n=mcp-${chain.name}`
      const offer = (await (await fetch(target)).json()) as Record<string, unknown>
      const args = { payment_required: offer, max_amount: '0.01', network: chain.network, url: target }
      const result = await client.callTool({ name: 'vault_sign_x402', arguments: args })
      const { payment_header } = result.structuredContent as { payment_header: string }
      const bought = await present(target, payment_header)
      t.equal(bought.status, 200, bought.text)
      t.match(bought.receipt, { success: true, payer: vault.addressOn(chain) })
      t.ok((await chain.transfersTo(payTo(chain))).includes(bought.receipt!.transaction))
      t.equal((await present(`${target}-again`, payment_header)).status, 409, 'it buys one call')

      const market = await connectMcp(t, product.url)
      const call = { link: cheap, query: { n: `tools-${chain.name}` } }
      const { structuredContent: requests } = await market.call('call_link', call)
      const signed = await client.callTool({
        name: 'vault_sign_x402',
        arguments: { payment_required: requests, max_amount: '0.01', network: chain.network },
      })
      const { payment_header: payment } = signed.structuredContent as { payment_header: string }
      const byTools = await market.call('call_link', { ...call, payment })
      t.match(byTools.structuredContent, { status: 200, response: { target: /n=tools-/ } }, 'by tools alone')

      const tooMuch = await client.callTool({
        name: 'vault_sign_x402',
        arguments: { ...args, max_amount: '0.009' },
      })
      t.equal(tooMuch.isError, true)
      t.match(JSON.stringify(tooMuch.content), /BUDGET_EXCEEDED_TX/)
    },
  )

t.test('a price that the budget has no room for is refused by the vault', async (t) => {
  const [chain] = chains.both
  await vault.owner.call('PUT', '/v1/vault/policies/shopper', {
    assets: [
      { chain: 'base-sepolia', symbol: 'USDC', perTransaction: '0.1', perDay: '1', autoApproveUpTo: '0' },
    ],
    recipients: 'any',
  })
  const called = api.calls.length
  t.match(await reportOf(vault.pay(`${dear}?n=5`, chain)), { outcome: 'over_budget', exitCode: 11 })
  t.equal(api.calls.length, called)
})

t.test(
  'a locked vault, a wrong token and a vault that is gone are told apart, and nothing is paid',
  async (t) => {
    const [chain] = chains.both
    const called = api.calls.length
    const stranger = vault.pay(`${cheap}?n=6`, chain, { vault: vault.url, token: `vat_${'x'.repeat(43)}` })
    t.match(await reportOf(stranger), { outcome: 'usage', exitCode: 2 })
    await vault.owner.call('POST', '/v1/vault/lock', {})
    t.match(await reportOf(vault.pay(`${cheap}?n=7`, chain)), { outcome: 'vault_locked', exitCode: 12 })
    await vault.kill()
    t.match(await reportOf(vault.pay(`${cheap}?n=8`, chain)), { outcome: 'vault_unavailable', exitCode: 13 })
    t.equal(api.calls.length, called)
    await vault.start()
    t.equal(await vault.verify(), true, 'the log is whole')
  },
)
