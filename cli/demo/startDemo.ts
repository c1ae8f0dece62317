import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { addressForm } from '../../core/evm/hex.ts'
import {
  createDemoFacilitator,
  createDemoSeller,
  createEvmDemoBuyer,
  createSolanaDemoBuyer,
  type DemoBuyer,
  type DemoSeller,
} from '../../localnet/demoWallets.ts'
import { type LocalEvm, startLocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import { type LocalSolana, startLocalSolana } from '../../localnet/solana/startLocalSolana.ts'
import { createLog } from '../runtime/createLog.ts'
import { pluginSource } from '../runtime/readConfig.ts'
import { startTollgate, type Tollgate } from '../runtime/startTollgate.ts'
import { openStore } from './openStore.ts'
import { type SampleSeller, startSampleSeller } from './sampleSeller.ts'
import { sampleResponses } from './sampleStores.ts'

/** The running demo: two chains, a sample API, the gateway in front of it, and two buyers with money. */
export interface Demo {
  readonly evm: LocalEvm
  readonly solana: LocalSolana
  readonly sample: SampleSeller
  readonly seller: DemoSeller
  readonly tollgate: Tollgate
  readonly buyers: readonly DemoBuyer[]
  readonly link: { readonly url: string; readonly price: string }
  /** The same API at a price that the demo's vault does not pay without the owner's approval. */
  readonly expensiveLink: { readonly url: string; readonly price: string }
  readonly freeLink: { readonly url: string }
  /** A link whose API sends 5 USDC to the wallet in `?address=`, on either chain. */
  readonly faucetLink: { readonly url: string }
  readonly apiKey: string
  /** The token that signs in to `/operator`. */
  readonly operatorToken: string
  /** Folder of everything that the demo writes. The demo deletes the folder when it ends. */
  readonly dataDir: string
  /** USDC balance of the seller's wallet on a network, in atomic units. */
  sellerBalance(network: string): Promise<bigint>
  close(): Promise<void>
}

export interface DemoOptions {
  /** Port of the gateway; 0 for a free one. */
  readonly port: number
  /** Port of the EVM node. Default: a free one. */
  readonly evmPort?: number
  readonly onStep: (text: string) => void
}

const BUYER_USDC = 5_000_000n
/** The chain makes a block every 2 s, as Base does, because the time of the latest block decides whether a payment is valid. */
const chainClock = { blockTimeMs: 2_000, minesAtOnce: true }

export async function startDemo({ port, evmPort = 0, onStep }: DemoOptions): Promise<Demo> {
  const closers: (() => unknown)[] = []
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    onStep('Starting a local EVM node (as Base Sepolia) and a local Solana runtime (as Devnet)')
    const [evm, solana] = await Promise.all([
      freePort(evmPort).then((chosen) => startLocalEvm({ port: chosen, ...chainClock })),
      startLocalSolana(),
    ])
    closers.push(
      () => evm.close(),
      () => solana.close(),
    )

    onStep('Starting the sample API that will be sold')
    const sample = await startSampleSeller(faucetOf(evm, solana), sampleResponses)
    closers.push(() => sample.close())

    onStep('Starting the gateway in front of it')
    const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-demo-'))
    closers.push(() => rmSync(dataDir, { recursive: true, force: true }))
    const facilitator = await createDemoFacilitator(evm, solana)
    const operatorToken = randomBytes(24).toString('base64url')
    const tollgate = await startOn(
      port,
      (chosen) => demoConfig({ dataDir, port: chosen, evm, solana, operatorToken }),
      facilitator,
    )
    closers.push(() => tollgate.close())

    onStep('Opening a store with a wallet signature, and creating a paid link to the API')
    const seller = createDemoSeller(solana)
    const store = await openStore(tollgate.gatewayUrl, seller, sample)

    onStep('Giving two buyers a wallet with 5 USDC each')
    const buyers = [
      await createEvmDemoBuyer(evm, BUYER_USDC),
      await createSolanaDemoBuyer(solana, BUYER_USDC),
    ]
    const sellerBalance = async (network: string) =>
      network === evm.network
        ? evm.balanceUsdc(seller.evmAddress as `0x${string}`)
        : solana.balanceUsdc(seller.solanaAddress)
    return {
      evm,
      solana,
      sample,
      seller,
      tollgate,
      buyers,
      ...store,
      operatorToken,
      dataDir,
      sellerBalance,
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Sends test money to a valid address of either chain. For an invalid address, the error states what was expected. */
const faucetOf = (evm: LocalEvm, solana: LocalSolana) => async (address: string) => {
  if (addressForm.test(address)) {
    const wallet = address as `0x${string}`
    await evm.mintUsdc(wallet, BUYER_USDC)
    return { address, network: evm.network, usdc: formatAmount(await evm.balanceUsdc(wallet), 6) }
  }
  try {
    solana.mintUsdc(address, BUYER_USDC)
    return { address, network: solana.network, usdc: formatAmount(await solana.balanceUsdc(address), 6) }
  } catch {
    return { error: 'Expected ?address= with a wallet on Base Sepolia (0x…) or Solana Devnet.' }
  }
}

/** Starts on the requested port, or on a free port if another program uses it. */
async function startOn(
  port: number,
  configOf: (port: number) => object,
  keys: { evmKey: string; solanaKey: string },
): Promise<Tollgate> {
  const env = { TOLLGATE_FACILITATOR_EVM_KEY: keys.evmKey, TOLLGATE_FACILITATOR_SOLANA_KEY: keys.solanaKey }
  const plugins = pluginSource(process.cwd())
  const start = async (chosen: number) => {
    const loaded = await parseConfig(JSON.stringify(configOf(chosen)), { file: 'demo.json', env, plugins })
    return startTollgate(loaded, { env: {}, log: createLog(loaded.config.log) })
  }
  try {
    return await start(port === 0 ? await freePort() : port)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    return start(await freePort())
  }
}

/**
 * Finds a free port, and prefers the requested port. The public URL contains the port, so it must be known before the gateway
 * listens.
 */
async function freePort(wanted = 0): Promise<number> {
  const probe = createServer().listen(wanted, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch (error) {
    if (wanted === 0) throw error
    return freePort()
  }
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

interface DemoConfigDeps {
  readonly dataDir: string
  readonly port: number
  readonly evm: Pick<LocalEvm, 'network' | 'rpcUrl'>
  readonly solana: Pick<LocalSolana, 'network' | 'rpcUrl' | 'wsUrl'>
  readonly operatorToken: string
}

/** The demo's configuration: like an operator's tollgate.yaml, for two local chains. */
function demoConfig({ dataDir, port, evm, solana, operatorToken }: DemoConfigDeps): object {
  return {
    publicUrl: `http://127.0.0.1:${port}`,
    gateway: { port, drainTimeoutMs: 1_000 },
    admin: { port: 0 },
    operator: { token: operatorToken },
    storage: { path: `${dataDir}/tollgate.db` },
    secretFile: `${dataDir}/secret`,
    networks: {
      [evm.network]: {
        rpcUrls: [evm.rpcUrl],
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_EVM_KEY}' },
      },
      [solana.network]: {
        rpcUrls: [solana.rpcUrl],
        wsUrl: solana.wsUrl,
        facilitator: { privateKey: '${TOLLGATE_FACILITATOR_SOLANA_KEY}' },
      },
    },
    // The sample API runs on this machine. By default, a gateway connects to no private address.
    egress: { allowPrivateCidrs: ['127.0.0.0/8'] },
    plugins: [
      { use: 'rate-limit' },
      { use: 'health' },
      { use: 'x402' },
      { use: 'replay-guard' },
      { use: 'upstream' },
      { use: 'purchase-record' },
      { use: 'metrics' },
    ],
    log: { level: 'warn' },
  }
}
