import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { type Address, getAddress } from 'viem'
import { MULTICALL3_ADDRESS, startLocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import { ask, createVaultBox } from '../../test/helpers/cli/vault/vaultProcess.ts'
import { startFaultyRpc } from '../../test/helpers/localnet/startFaultyRpc.ts'
import { BLOCKS_UNTIL_FINAL } from '../../test/helpers/vault/permits.ts'
import { chargeOf, orderOf, together } from '../../test/helpers/vault/uptoOrders.ts'
import { openOwnerClient } from './ownerClient.ts'

const chain = await startLocalEvm()
t.teardown(chain.close)
const node = await startFaultyRpc(chain.rpcUrl)
t.teardown(() => node.close())
const [facilitator, payTo] = (await chain.rpc<Address[]>('eth_accounts')) as [Address, Address]
const offer = { facilitator, payTo }

const box = createVaultBox(t)
const { test_addresses: addresses } = await box.json(['init', ...box.withPassword])
await chain.mintUsdc(addresses.evm, 100_000_000n)
await chain.allowPermit2(addresses.evm)
const finalize = () => chain.mine(BLOCKS_UNTIL_FINAL + 1)
await finalize()
const config = join(box.home, 'vault.yaml')
const useNode = (url: string | undefined) =>
  writeFileSync(config, `testnets: true\n${url === undefined ? '' : `evmRpc:\n  base-sepolia: ${url}\n`}`, {
    mode: 0o600,
  })
useNode(node.url)
let running = await box.serve()
const owner = await openOwnerClient({
  home: box.home,
  socketPath: join(box.home, 'owner.sock'),
  password: () => undefined,
})
const { id, token } = await owner.call<{ id: string; token: string }>('POST', '/v1/vault/agents', {
  name: 'shopper',
  scopes: ['wallet.base-sepolia'],
  requests_per_minute: 10_000,
})
await owner.call('PUT', `/v1/vault/policies/${id}`, {
  assets: [
    {
      chain: 'base-sepolia',
      symbol: 'USDC',
      perTransaction: '3',
      perDay: '8',
      autoApproveUpTo: '1',
    },
  ],
  recipients: 'any',
})

const pay = (more: Partial<Parameters<typeof orderOf>[0]> = {}) =>
  ask(running.url, token, '/v1/vault/sign-payment', orderOf({ ...offer, ...more }))

async function paid(more: Partial<Parameters<typeof orderOf>[0]> = {}): Promise<string> {
  const response = await pay(more)
  if (response?.status !== 200) throw new Error(`Expected a payment, got ${JSON.stringify(response)}`)
  return response.body.payment_header
}

const charge = (header: string, amount: bigint) =>
  chain.send({ from: facilitator, ...chargeOf(header, amount) })
const giveBack = () => owner.call<object>('POST', '/v1/vault/budget/give-back', {})

/** What the agent's budget line says, in smallest units. */
async function line(): Promise<Record<string, string>> {
  const response = await ask(running.url, token, '/v1/vault/budget')
  const [one] = response!.body.budget.filter(({ asset }: { asset: string }) => asset.includes('/erc20:'))
  return { spent: one.spent, reserved: one.reserved, given_back: one.given_back }
}

const entries = async () =>
  (
    await owner.call<{ events: { agent: string; details: Record<string, string> }[] }>(
      'GET',
      '/v1/vault/activity?action=GIVE_BACK',
    )
  ).events

async function restart(): Promise<void> {
  await running.kill()
  running = await box.serve()
}

t.test('what a seller did not charge can be spent again once it is final, also over a kill', async (t) => {
  const headers = [await paid(), await paid()]
  const hash = await charge(headers[0]!, 250_000n)
  await charge(headers[1]!, 1_000_000n)
  t.match(await giveBack(), { given_back: [], open: 2, problems: [] }, 'the blocks are not final')
  t.strictSame(await line(), { spent: '2000000', reserved: '0', given_back: '0' })
  await restart()
  await finalize()
  await giveBack()
  t.match(await line(), { spent: '1250000', given_back: '750000' })
  t.match(await entries(), [
    {
      agent: 'shopper',
      details: {
        amount: '0.75',
        recipient: getAddress(payTo),
        chain: 'base-sepolia',
        note: new RegExp(hash),
      },
    },
  ])
  const shown = await box.run(['budget', 'show', 'shopper', '--json'])
  const lines = shown.stdout
    .trim()
    .split('\n')
    .map((text) => JSON.parse(text))
  const usdc = lines.find(({ asset }) => asset.includes('/erc20:'))
  t.match(usdc, { spent: '1250000', given_back: '750000', per_day: '8000000' })

  await restart()
  t.match(await box.json(['budget', 'give-back']), { given_back: [], open: 0 })
  t.match(await line(), { spent: '1250000', given_back: '750000' }, 'a second check gives nothing')
  t.equal((await entries()).length, 1)
})

t.test('a payment that the owner approved gives back too', async (t) => {
  const before = await line()
  t.match(await pay({ most: '2000000' }), { status: 202 })
  const { approvals } = await owner.call<{ approvals: { id: string; decision_hash: string }[] }>(
    'GET',
    '/v1/vault/approvals?status=pending',
  )
  const [{ id: approval, decision_hash }] = approvals as [{ id: string; decision_hash: string }]
  await owner.call('POST', `/v1/vault/approvals/${approval}/approve`, { decision_hash })
  await charge(await paid({ most: '2000000' }), 500_000n)
  await finalize()
  await giveBack()
  t.match(await line(), {
    spent: String(Number(before['spent']) + 500_000),
    given_back: String(Number(before['given_back']) + 1_500_000),
  })
})

t.test(
  'two charges of a contract in one transaction give back only what none of them can have cost',
  async (t) => {
    // Read, so that the payments are signed after a known final block.
    await giveBack()
    const before = await line()
    const by = { facilitator: MULTICALL3_ADDRESS }
    const headers = [await paid({ ...by, most: '1000000' }), await paid({ ...by, most: '500000' })]
    const calls = [chargeOf(headers[0]!, 200_000n), chargeOf(headers[1]!, 400_000n)]
    await chain.send({ from: facilitator, ...together(calls) })
    await finalize()
    await giveBack()
    t.match(await line(), {
      spent: String(Number(before['spent']) + 1_100_000),
      given_back: String(Number(before['given_back']) + 400_000),
    })
  },
)

t.test('a node that hangs, lies or refuses delays no signature and gives nothing back', async (t) => {
  const before = await line()
  node.add('*', { kind: 'hold' })
  const header = await paid({ most: '10000' })
  await charge(header, 1n)
  await finalize()
  t.match(await giveBack(), {
    given_back: [],
    problems: [/base-sepolia .*127\.0\.0\.1.*no response in time/],
  })
  node.clear()
  node.add('eth_chainId', { kind: 'result', result: '0x1' })
  await restart()
  t.match(await giveBack(), { given_back: [], problems: [/serves chain 1, expected 84532/] })
  node.clear()
  for (const result of ['0x', null, [], {}, 7]) {
    const lift = node.add('eth_call', { kind: 'result', result })
    t.match(await giveBack(), { given_back: [], problems: [] }, JSON.stringify(result))
    lift()
  }
  node.add('eth_getBlockByNumber', { kind: 'error', code: -39001, message: 'secret words' })
  const refused = await giveBack()
  t.match(refused, { given_back: [], problems: [/code -39001/] })
  t.notMatch(JSON.stringify(refused), /secret/)
  t.match(await line(), { given_back: before['given_back'] })
  node.clear()
  await giveBack()
  t.match(await line(), { given_back: String(Number(before['given_back']) + 9_999) })
})

t.test('payments that expire unused give everything back, exact ones too', async (t) => {
  const before = await line()
  await paid({ most: '1000000' })
  await paid({ most: '30000', scheme: 'exact' })
  await finalize()
  t.match(await giveBack(), { given_back: [], open: 2 })
  await chain.advanceTime(7_200)
  await finalize()
  await giveBack()
  t.match(await line(), {
    spent: before['spent'],
    given_back: String(Number(before['given_back']) + 1_030_000),
  })
  const notes = (await entries()).slice(0, 2).map(({ details }) => details['note'])
  for (const note of notes) t.match(note, /nothing of a payment of at most .* was charged/)
})

t.test('without a node, nothing is given back, and the owner is told why', async (t) => {
  const before = await line()
  useNode(undefined)
  await restart()
  await charge(await paid({ most: '20000' }), 1n)
  await finalize()
  const refused = await box.run(['budget', 'give-back'])
  t.not(refused.status, 0)
  t.match(refused.stderr, /no RPC node[\s\S]*evmRpc/)
  useNode(node.url)
  await restart()
  t.match(
    await giveBack(),
    { given_back: [], open: 0 },
    'a payment that was signed without a node never does',
  )
  t.match(await line(), { given_back: before['given_back'] })
  t.match(await owner.call('GET', '/v1/vault/activity/verify'), { ok: true })
  t.match(await ask(running.url, token, '/v1/vault/budget/give-back', {}), { status: 403 })
})
