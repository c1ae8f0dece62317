import { Keypair, PublicKey, Transaction, TransactionInstruction } from '@solana/web3.js'
import type { Test } from 'tap'
import t from 'tap'
import { encodeFunctionData, erc20Abi, serializeTransaction } from 'viem'
import { tokenProgramBytes } from '../../core/solana/addresses.ts'
import { associatedTokenAddress } from '../../core/solana/tokenAccount.ts'
import { startVault } from '../../test/helpers/vault/startVault.ts'
import { ownAssets } from '../config/ownAssets.ts'
import { inputSchemaOf } from '../mcp/toolSchemas.ts'
import { tools as toolTable } from '../operations/table.ts'

const mint = Keypair.generate().publicKey
const token = '0x52908400098527886E0F7030069857D2E4169EE7'
const payee = '0x1212121212121212121212121212121212121212'
const chains = [
  {
    name: 'playground',
    title: 'Playground',
    network: 'eip155:31337',
    symbol: 'PLAY',
    test: true,
    usualFee: '0.001',
    maxFee: '0.01',
  },
  {
    name: 'my-cluster',
    network: `solana:${'2'.repeat(32)}`,
    symbol: 'SOL',
    test: true,
    usualFee: '0.001',
    maxFee: '0.01',
  },
] as const
const assets = [
  { chain: 'solana', symbol: 'TOLL', address: mint.toBase58(), decimals: 9, program: 'token-2022' },
  { chain: 'base', symbol: 'TOLL', address: token, decimals: 18, eip712: { name: 'Toll', version: '1' } },
  { chain: 'playground', symbol: 'USDC', address: token, decimals: 6 },
] as const
const own = ownAssets({ chains, assets })
const enabled = ['solana', 'base', 'ethereum', 'playground', 'my-cluster']

const rule = (chain: string, symbol: string) => ({
  chain,
  symbol,
  perTransaction: '100',
  perDay: '500',
  autoApproveUpTo: '10',
})
const policy = {
  assets: [
    rule('solana', 'TOLL'),
    rule('base', 'TOLL'),
    rule('playground', 'USDC'),
    rule('playground', 'PLAY'),
  ],
  recipients: 'any',
}

async function start(t: Test) {
  const vault = await startVault(t, { assets: own.assets, enabled })
  const agent = await vault.agent(
    'shopper',
    enabled.map((chain) => `wallet.${chain}`),
  )
  await vault.api.policies.set('shopper', policy, vault.owner)
  return { vault, agent }
}

/** TransferChecked of the platform's token; with `fee`, TransferCheckedWithFee. */
function sendToll(from: string, amount: bigint, fee?: bigint): string {
  const owner = new PublicKey(from)
  const program = tokenProgramBytes['token-2022']
  const ata = (of: PublicKey) => new PublicKey(associatedTokenAddress(of.toBytes(), program, mint.toBytes()))
  const data = Buffer.alloc(10)
  data.writeUInt8(12, 0)
  data.writeBigUInt64LE(amount, 1)
  data.writeUInt8(9, 9)
  const withFee = Buffer.concat([Buffer.of(26, 1), data.subarray(1), Buffer.alloc(8)])
  withFee.writeBigUInt64LE(fee ?? 0n, 11)
  const key = (pubkey: PublicKey, isSigner = false, isWritable = false) => ({ pubkey, isSigner, isWritable })
  const keys = [
    key(ata(owner), false, true),
    key(mint),
    key(ata(Keypair.generate().publicKey), false, true),
    key(owner, true),
  ]
  const transfer = new TransactionInstruction({
    programId: new PublicKey(program),
    keys,
    data: fee === undefined ? data : withFee,
  })
  return new Transaction({ feePayer: owner, recentBlockhash: mint.toBase58() })
    .add(transfer)
    .serialize({ requireAllSignatures: false, verifySignatures: false })
    .toString('base64')
}

const sendUsdc = (chainId: number, amount: bigint): string =>
  serializeTransaction({
    chainId,
    type: 'eip1559',
    gas: 60_000n,
    maxFeePerGas: 1_000_000_000n,
    to: token,
    data: encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [payee, amount] }),
  })

const offer = {
  x402Version: 2,
  resource: { url: 'https://api.example.com/hello', description: '', mimeType: 'text/plain' },
  accepts: [
    {
      scheme: 'exact',
      network: 'eip155:8453',
      amount: String(3n * 10n ** 18n),
      asset: token,
      payTo: payee,
      maxTimeoutSeconds: 60,
      extra: { name: 'Toll', version: '1' },
    },
  ],
}

t.test('tokens and chains of the owner go wherever the pinned ones go', async (t) => {
  t.strictSame(own.problems, [])
  const { vault, agent } = await start(t)
  const { body: capabilities } = await agent.call('GET', '/v1/capabilities')
  t.strictSame(capabilities.chains, enabled)
  const tools = JSON.stringify(toolTable.map((tool) => inputSchemaOf(tool, capabilities.chains)))
  t.ok(tools.includes('"playground"') && tools.includes('"my-cluster"'))
  const { body: known } = await agent.call('GET', '/v1/vault/assets')
  t.strictSame(
    known.assets
      .filter(({ chain }: { chain: string }) => chain === 'playground')
      .map(({ symbol, decimals, native }: Record<string, unknown>) => [symbol, decimals, native]),
    [
      ['PLAY', 18, true],
      ['USDC', 6, false],
    ],
  )
  const addressOn = async (chain: string) => (await agent.call('GET', `/address/${chain}`)).body.address
  const { keys } = vault.vault
  t.equal(await addressOn('playground'), keys.default('evm', true).address)
  t.equal(await addressOn('my-cluster'), keys.default('solana', true).address)

  const sign = (chain: string, currency: string, amount: number, unsigned_tx: string) =>
    agent.call('POST', '/v1/vault/sign', { chain, currency, amount, unsigned_tx }, { prefer: 'wait=0' })
  const from = await addressOn('solana')
  t.equal((await sign('solana', 'TOLL', 2, sendToll(from, 2_000_000_000n))).status, 200)
  t.equal((await sign('solana', 'TOLL', 20, sendToll(from, 20_000_000_000n))).status, 202)
  const tamper = await sign('solana', 'TOLL', 2, sendToll(from, 3_000_000_000n))
  t.equal(tamper.body.error.code, 'TX_MISMATCH')
  const withFee = (amount: number) => sign('solana', 'TOLL', amount, sendToll(from, 3_000_000_000n, 1_000n))
  t.equal((await withFee(3)).status, 202, 'for the owner')
  t.equal((await withFee(2)).body.error.code, 'TX_MISMATCH')
  t.equal((await sign('playground', 'USDC', 4, sendUsdc(31_337, 4_000_000n))).status, 200)
  t.equal((await sign('playground', 'USDC', 4, sendUsdc(8453, 4_000_000n))).body.error.code, 'CHAIN_MISMATCH')
  for (const symbol of ['toll', 'T0LL', 'TOLL '])
    t.equal((await sign('solana', symbol, 2, sendToll(from, 2_000_000_000n))).status, 400)

  const pay = { payment_required: offer, max_amount: '3' }
  const paid = await agent.call('POST', '/v1/vault/sign-payment', pay)
  t.equal(paid.status, 200)
  const header = JSON.parse(Buffer.from(paid.body.payment_header, 'base64').toString())
  t.match(header.payload.authorization, { from: keys.default('evm').address, value: String(3n * 10n ** 18n) })
  const fits = { chain: 'playground', amount: 4, currency: 'USDC' }
  t.match((await agent.call('POST', '/v1/vault/budget/check', fits)).body, { ok: true })
})

t.test('with other decimals, a bound that can not be read any more leaves no room', async (t) => {
  const { vault } = await start(t)
  const fees = [{ chain: 'playground', perDay: '0.0000000000000001' }]
  const limits = [{ chain: 'playground', symbol: 'USDC', perDay: '5.000001' }]
  await vault.api.policies.set('vault', { limits }, vault.owner)
  await vault.close()
  const agentOf = async (running: Awaited<ReturnType<typeof startVault>>) => {
    const { id } = running.api.registry.byName('shopper')!
    const { body } = await running.asOwner('POST', `/v1/vault/agents/${id}/rotate`, {})
    const headers = { authorization: `Bearer ${body.token}`, prefer: 'wait=0' }
    return (currency: string, amount: number, unsigned_tx: string) =>
      running.call('POST', '/v1/vault/sign', { chain: 'playground', currency, amount, unsigned_tx }, headers)
  }

  const coarse = ownAssets({ chains, assets: assets.map((asset) => ({ ...asset, decimals: 3 })) })
  const first = await startVault(t, { home: vault.home, assets: coarse.assets, enabled })
  const code = 'RULES_WITHOUT_ASSET'
  const warned = (await first.asOwner('GET', '/v1/vault/status')).body.warnings
  t.match(warned, [{ code, message: /policy vault .*USDC on playground/ }])
  const sent = await (await agentOf(first))('USDC', 4, sendUsdc(31_337, 4_000n))
  t.match(sent.body.error, { code: 'BUDGET_EXCEEDED_TX', details: { subject: 'vault', limit: '0' } })
  await first.api.policies.delete('vault', first.owner)
  await first.api.policies.set('shopper', { ...policy, fees }, first.owner)
  await first.close()

  const shallow = ownAssets({ chains: [{ ...chains[0], decimals: 15 }, chains[1]], assets })
  const second = await startVault(t, { home: vault.home, assets: shallow.assets, enabled })
  t.match((await second.asOwner('GET', '/v1/vault/status')).body.warnings, [
    { code, message: /fees on playground/ },
  ])
  const paid = await (await agentOf(second))('USDC', 4, sendUsdc(31_337, 4_000_000n))
  t.equal(paid.body.error.code, 'FEE_EXCESSIVE')
})

t.test('without them the vault starts, names the rules that do not apply, and refuses', async (t) => {
  const { vault } = await start(t)
  const limits = [{ chain: 'base', symbol: 'TOLL', perDay: '5' }]
  await vault.api.policies.set('vault', { limits }, vault.owner)
  await vault.close()

  const bare = await startVault(t, { home: vault.home })
  const { warnings } = (await bare.asOwner('GET', '/v1/vault/status')).body
  t.match(warnings, [
    {
      code: 'RULES_WITHOUT_ASSET',
      message: /policy shopper .*TOLL on solana, TOLL on base, USDC on playground, PLAY on playground/,
      action: /policies set shopper/,
    },
    { code: 'RULES_WITHOUT_ASSET', message: /policy vault .*TOLL on base/ },
  ])
  const { token: bearer } = (
    await bare.asOwner('POST', `/v1/vault/agents/${bare.api.registry.byName('shopper')!.id}/rotate`, {})
  ).body
  const call = (path: string, body?: object) =>
    bare.call(body === undefined ? 'GET' : 'POST', path, body, { authorization: `Bearer ${bearer}` })
  t.equal((await call('/address/playground')).status, 400)
  const from = (await call('/address/solana')).body.address
  const sign = { chain: 'solana', currency: 'TOLL', amount: 2, unsigned_tx: sendToll(from, 2_000_000_000n) }
  t.match((await call('/v1/vault/sign', sign)).body.error, { code: 'VALIDATION_ERROR', message: /currency/ })
  t.equal((await call('/v1/vault/sign-payment', { payment_required: offer, max_amount: '3' })).status, 400)
  t.equal((await call('/v1/vault/budget')).status, 200)
})
