import { getDefaultAsset } from '@x402/evm'
import t from 'tap'
import { getAddress } from 'viem'
import { assetPresets, builtInAssets } from '../domain/asset.ts'
import { resolveAssets } from './assets.ts'
import { parseConfig } from './loadConfig.ts'
import { facilitatorChoice } from './schema.ts'

const plugins = {
  load: (): never => {
    throw new Error('no plugins here')
  },
}

const assetsOf = async (assets: string) => {
  const text = `
publicUrl: https://a.example
networks:
  solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1: { facilitator: { url: "https://f.example/x402/" } }
  eip155:8453: { facilitator: { url: "https://f.example" } }
assets: ${assets}
`
  const { config } = await parseConfig(text, { file: 'a.yaml', env: {}, plugins })
  return resolveAssets(config)
}

t.test('without entries, the USDC of the configured networks is taken, in their order', async (t) => {
  t.match(await assetsOf('[]'), [
    { network: 'solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1', symbol: 'USDC', decimals: 6, program: 'token' },
    { network: 'eip155:8453', symbol: 'USDC', decimals: 6, eip712: { name: 'USD Coin', version: '2' } },
  ])
  t.equal((await assetsOf('[]')).length, 2, 'and of no other network')
})

t.test('an entry with the address of a built-in token, in any case, changes only what it says', async (t) => {
  const assets = await assetsOf(
    '[{ network: eip155:8453, address: "0x833589FCD6EDB6E08F4C7C32D4F71B54BDA02913", feeBps: 100 }]',
  )
  t.equal(assets.length, 2)
  t.match(assets[1], {
    symbol: 'USDC',
    decimals: 6,
    feeBps: 100,
    usdPerUnit: '1',
    eip712: { name: 'USD Coin' },
  })
})

t.test('other entries add to the built-in tokens', async (t) => {
  const assets = await assetsOf(
    '[{ network: eip155:8453, address: "0x1111111111111111111111111111111111111111", symbol: TOLL, decimals: 18, eip712: { name: Toll, version: "1" }, feeBps: 400, usdPerUnit: "0.25" }]',
  )
  t.equal(assets.length, 3)
  t.match(assets[2], { symbol: 'TOLL', decimals: 18, feeBps: 400, usdPerUnit: '0.25' })
})

t.test('a token that is paid by Permit2 needs no EIP-712 domain', async (t) => {
  const token =
    'network: eip155:8453, address: "0x1111111111111111111111111111111111111111", symbol: T, decimals: 18'
  t.match((await assetsOf(`[{ ${token}, transferMethod: permit2 }]`))[2], { transferMethod: 'permit2' })
  await t.rejects(assetsOf(`[{ ${token}, transferMethod: eip3009 }]`), /eip712 is missing/)
})

t.test(
  'a token with permits needs its EIP-712 domain, and USDC has them unless an entry denies it',
  async (t) => {
    const token =
      'network: eip155:8453, address: "0x1111111111111111111111111111111111111111", symbol: T, decimals: 18, transferMethod: permit2'
    await t.rejects(assetsOf(`[{ ${token}, hasPermit: true }]`), /eip712 is missing/)
    const usdc = 'network: eip155:8453, address: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"'
    t.match((await assetsOf(`[{ ${usdc} }]`))[1], { hasPermit: true })
    t.match((await assetsOf(`[{ ${usdc}, hasPermit: false }]`))[1], { hasPermit: false })
  },
)

t.test('EURC needs only its value, and is not accepted without one', async (t) => {
  const eurc = 'network: eip155:8453, address: "0x60a3e35cc302bfa44cb288bc5a4f316fdb1adb42"'
  t.match((await assetsOf(`[{ ${eurc}, usdPerUnit: "1.16" }]`))[2], {
    symbol: 'EURC',
    decimals: 6,
    eip712: { name: 'EURC', version: '2' },
    hasPermit: true,
    feeBps: 500,
    usdPerUnit: '1.16',
  })
  await t.rejects(assetsOf(`[{ ${eurc} }]`), /usdPerUnit is missing. EURC is not worth one USDC/)
  await t.rejects(
    assetsOf(`[{ ${eurc}, usdPerUnit: "1.16", decimals: 18 }]`),
    /decimals of EURC at this address is 6, not 18/,
  )
  for (const { address } of assetPresets) t.equal(getAddress(address), address)
})

t.test('the built-in USDC of EVM networks is the token that @x402/evm names', async (t) => {
  for (const { network, address, eip712, decimals } of builtInAssets) {
    if (!network.startsWith('eip155:')) continue
    t.match(getDefaultAsset(network, 'USDC'), { asset: address, ...eip712, decimals }, network)
  }
})

t.test('a tip that leaves nothing for the base fee is refused, also beside a default', async (t) => {
  const parse = (id: string, options: string) =>
    parseConfig(
      `publicUrl: https://a.example\nnetworks: { ${id}: { rpcUrls: [https://n.example], facilitator: { privateKey: "0x${'1'.repeat(64)}", ${options} } } }`,
      { file: 'a.yaml', env: {}, plugins },
    )
  await t.rejects(parse('eip155:137', 'maxFeePerGasGwei: 20'), /The tip of 30 gwei is not below .* is 20/)
  await t.rejects(parse('eip155:8453', 'priorityFeePerGasGwei: 2'), /The tip of 2 gwei is not below .* is 2/)
  await t.resolves(parse('eip155:137', 'maxFeePerGasGwei: 20, priorityFeePerGasGwei: 1'))
})

t.test('a facilitator is embedded or remote, and both are held to the caps', (t) => {
  const caps = {
    maxGas: 1,
    maxPaymentsPerTransaction: 1,
    batchWindowMs: 1,
    maxFeePerGasGwei: 1,
    minPrice: '0.0001',
    maxInFlight: 1_024,
    maxInFlightPerPayer: 100,
    maxFailuresPerPayer: 100,
    factories: [],
    maxComputeUnits: 1,
    maxMicroLamportsPerUnit: 1,
  }
  t.strictSame(facilitatorChoice({ ...caps, headers: { a: 'b' }, url: 'https://f.example/x/' }), {
    ...caps,
    kind: 'remote',
    url: 'https://f.example/x',
    headers: { a: 'b' },
  })
  t.strictSame(facilitatorChoice({ ...caps, headers: {}, privateKey: '0x1' }), {
    kind: 'embedded',
    privateKeys: ['0x1'],
    ...caps,
  })
  t.end()
})
