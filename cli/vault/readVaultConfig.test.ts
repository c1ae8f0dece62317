import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import type { ConfigError } from '../../core/config/check/problem.ts'
import { checkVaultConfig, readVaultConfig } from './readVaultConfig.ts'
import { serveSettings } from './serveSettings.ts'

const plugin = (name: string, more = '') => `export default {
  name: '${name}',
  api: 1,
  options: {
    type: 'object',
    additionalProperties: false,
    properties: { text: { type: 'string', description: 'A text.', default: 'hi' } },
  },
  needs: ['log'],
  setup: () => ({ route: () => undefined }),
  ${more}
}`

/** The home of a vault, as far as its configuration is concerned. */
const homeWith = (t: Test, files: Record<string, string>) => {
  const home = t.testdir(files)
  for (const name of Object.keys(files)) chmodSync(join(home, name), 0o600)
  return home
}

async function problemsOf(text: string, env = {}) {
  try {
    await checkVaultConfig(text, '/nowhere/vault.yaml', env)
  } catch (error) {
    return (error as ConfigError).problems.map(({ line, path, message, hint }) =>
      [line, path, message, hint].join(' '),
    )
  }
  throw new Error('expected a ConfigError')
}

t.test('without a file, and with an empty one, everything is a default', async (t) => {
  const bare = await readVaultConfig(homeWith(t, {}), undefined, {})
  t.equal(bare.file, undefined)
  t.match(bare.config, { host: '127.0.0.1', port: 8420, idleMinutes: 15, maxHours: 12, testnets: false })
  t.strictSame(bare.plugins, [])
  const empty = await readVaultConfig(homeWith(t, { 'vault.yaml': '' }), undefined, {})
  t.strictSame(empty.config, bare.config)
})

t.test('the file of the folder is read, another where it is named, and flags win over both', async (t) => {
  const home = homeWith(t, {
    'vault.yaml': `relay: wss://one.example\nidleMinutes: "\${IDLE}"\nsolanaRpc: https://node.example\n`,
    'other.yaml': 'relay: wss://two.example\nport: 9000\n',
  })
  const env = { IDLE: '7' }
  const own = await serveSettings({}, home, env, t.fail)
  t.match(own, { relay: 'wss://one.example', idleLockMs: 420_000, maxAgeMs: 43_200_000, port: 8420 })
  const named = await serveSettings({ config: join(home, 'other.yaml') }, home, env, t.fail)
  t.match(named, { relay: 'wss://two.example', port: 9000, idleLockMs: 900_000 })
  const flagged = await serveSettings({ relay: 'wss://three.example', idleMinutes: '3' }, home, env, t.fail)
  t.match(flagged, { relay: 'wss://three.example', idleLockMs: 180_000, solanaRpc: 'https://node.example' })
  await t.rejects(serveSettings({ maxHours: '0' }, home, env, t.fail), { message: /--max-hours/ })
  await t.rejects(serveSettings({ config: join(home, 'none.yaml') }, home, env, t.fail), {
    code: 'CONFIG_INVALID',
    message: /none\.yaml[\s\S]*no such file[\s\S]*--config/,
  })
})

t.test('what does not fit is said with its line, and with what was probably meant', async (t) => {
  t.match(await problemsOf('relay: wss://r.example\nidelMinutes: 3\n'), [/2 idelMinutes .*idleMinutes\?/])
  t.match(await problemsOf('idleMinutes: 0\nmaxHours: "12"\nrelay: https://r.example'), [
    /1 idleMinutes .*at least 1/,
    /2 maxHours Expected an integer, got a text/,
    /3 relay Expected/,
  ])
  t.match(await problemsOf(`relay: "\${NOT_SET}"`), [/NOT_SET is not set/])
  t.match(await problemsOf('plugins: [{ use: ./none.mjs }]'), [/none\.mjs/])
  t.match(await problemsOf('plugins: [{ with: {} }]'), [/use is missing/])
  t.match(await problemsOf('host: 0.0.0.0'), [/one of 127\.0\.0\.1/])
})

t.test(
  'nodes of EVM chains are named by the chain, and a chain that the vault does not have is refused',
  async (t) => {
    const home = homeWith(t, { 'vault.yaml': 'evmRpc:\n  base: https://node.example\n' })
    t.match(await serveSettings({}, home, {}, t.fail), { evmRpc: { base: 'https://node.example' } })
    t.match(await problemsOf('evmRpc:\n  bas: https://node.example\n'), [/2 evmRpc\.bas .*base\?/])
    t.match(await problemsOf('evmRpc:\n  base: node.example\n'), [/2 evmRpc\.base /])
  },
)

t.test('chains and assets of the owner are checked together, and each problem has its place', async (t) => {
  const chain = `  - name: mine
    network: eip155:31337
    symbol: COIN
    test: true
    usualFee: "0.001"
    maxFee: "0.01"
`
  const asset = (more: string) => `assets:
  - chain: mine
    symbol: TOLL
    address: "0x52908400098527886E0F7030069857D2E4169EE7"
    decimals: 18
${more}`
  const home = homeWith(t, { 'vault.yaml': `chains:\n${chain}${asset('')}` })
  const { assets, ownChains } = await serveSettings({}, home, {}, t.fail)
  t.match(assets.bySymbol('mine', 'TOLL'), { decimals: 18, id: /^eip155:31337\/erc20:0x5290/ })
  t.match(assets.chains.of('mine'), { isTest: true, title: 'mine', usualFee: 10n ** 15n, maxFee: 10n ** 16n })
  t.match(ownChains, [{ name: 'mine' }])

  const withChain = (from: string, to: string) => problemsOf(`chains:\n${chain.replace(from, to)}`)
  t.match(await withChain('eip155:31337', 'eip155:8453'), [/^3 chains\[0\].network .*which is base/])
  t.match(await withChain('eip155:31337', 'eip155:84532'), [/^3 chains\[0\].network .*which is base-sepolia/])
  t.match(await withChain('name: mine', 'name: ba5e'), [/^2 chains\[0\].name .*taken for Base/])
  t.match(await withChain('name: mine', 'name: m\u0456ne'), [/^2 chains\[0\].name /])
  t.match(await withChain('symbol: COIN', 'symbol: COIN\n    title: "S0lana"'), [
    /chains\[0\].title .*Solana/,
  ])
  t.match(await withChain('symbol: COIN', 'symbol: "CO IN"'), [/^4 chains\[0\].symbol /])
  t.match(await withChain('"0.001"', '"0.1"'), [/^6 chains\[0\].usualFee .*at most maxFee/])
  t.match(await withChain('"0.001"', '"0.0000000000000000001"'), [/^6 chains\[0\].usualFee .*Expected/])
  t.match(await withChain('test: true', 'rpc: node.example\n    test: false'), [/chains\[0\].rpc /])
  t.match(await withChain('    test: true\n', ''), [/chains\[0\].*test is missing/])
  const cluster = chain.replace('eip155:31337', `solana:${'2'.repeat(32)}`)
  t.match(await problemsOf(`chains:\n${cluster.replace('test: true', 'test: false')}`), [
    /^5 chains\[0\].test .*name no cluster/,
  ])
  t.match(await problemsOf(`chains:\n${chain}${chain}`), [/^8 chains\[1\].name /])

  const twice =
    '  - { chain: mine, symbol: toll, address: "0x8617E340B3D01FA5F11F306F4090FD50E238070D", decimals: 6 }\n'
  t.match(await problemsOf(`chains:\n${chain}${asset(twice)}`), [/^13 assets\[1\].symbol .*taken for TOLL/])
  t.match(await problemsOf(asset('')), [/^2 assets\[0\].chain .*one of ethereum, base/])
  const onBase = (fields: string) => problemsOf(`assets: [{ chain: base, decimals: 6, ${fields} }]`)
  t.match(await onBase('symbol: USDC, address: "0x52908400098527886E0F7030069857D2E4169EE7"'), [
    /symbol .*USDC/,
  ])
  t.match(await onBase('symbol: USD\u0421, address: "0x52908400098527886E0F7030069857D2E4169EE7"'), [
    /symbol .*ASCII/,
  ])
  t.match(await onBase('symbol: A, address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"'), [
    /address .*USDC on Base/,
  ])
  t.match(await onBase('symbol: A, address: "0x52908400098527886E0F7030069857D2E4169Ee7"'), [
    /address .*EIP-55/,
  ])
  t.match(await onBase('symbol: A, program: token, address: "0x52908400098527886E0F7030069857D2E4169EE7"'), [
    /program .*Expected no program/,
  ])
})

t.test('plugins are found beside the file, with their options checked and complete', async (t) => {
  const home = homeWith(t, {
    'mine.mjs': plugin('mine'),
    'broken.mjs': 'export default { name: 1 }',
    'vault.yaml': 'plugins:\n  - use: ./mine.mjs\n  - use: ./mine.mjs\n    with: { text: you }\n',
    'bad.yaml': 'plugins:\n  - use: ./mine.mjs\n    with: { txet: you }\n  - use: ./broken.mjs\n',
  })
  const { plugins } = await readVaultConfig(home, undefined, {})
  t.strictSame(
    plugins.map(({ plugin, options }) => [plugin.name, options]),
    [
      ['mine', { text: 'hi' }],
      ['mine', { text: 'you' }],
    ],
  )
  await t.rejects(readVaultConfig(home, join(home, 'bad.yaml'), {}), {
    message: /Did you mean text\?[\s\S]*not a vault plugin: its name is missing[\s\S]*vaultPlugin\(/,
  })
})

t.test('a file that others may change is warned about: it names code', async (t) => {
  const home = homeWith(t, { 'vault.yaml': 'testnets: true\n' })
  t.strictSame((await readVaultConfig(home, undefined, {})).warnings, [])
  chmodSync(join(home, 'vault.yaml'), 0o620)
  t.match((await readVaultConfig(home, undefined, {})).warnings, [/0600/])
})
