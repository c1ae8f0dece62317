import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseConfig } from '../../core/config/loadConfig.ts'
import { formatAmount } from '../../core/domain/money.ts'
import { addressForm } from '../../core/evm/address.ts'
import { createEvmDemoBuyer, createSolanaDemoBuyer, type DemoBuyer } from '../../localnet/demoBuyer.ts'
import { createDemoFacilitator } from '../../localnet/demoFacilitator.ts'
import { createDemoSeller, type DemoSeller } from '../../localnet/demoSeller.ts'
import { type LocalEvm, startLocalEvm } from '../../localnet/evm/startLocalEvm.ts'
import { type LocalSolana, startLocalSolana } from '../../localnet/solana/startLocalSolana.ts'
import { createLog } from '../runtime/createLog.ts'
import { pluginSource } from '../runtime/readConfig.ts'
import { startTollgate, type Tollgate } from '../runtime/startTollgate.ts'
import { demoConfig } from './demoConfig.ts'
import { openStore } from './openStore.ts'
import { type SampleSeller, startSampleSeller } from './sampleSeller.ts'
import { sampleAnswers } from './sampleStores.ts'

/** Everything of the demo, running: two chains, a sample API, the gateway in front of it, and two buyers with money. */
export interface Demo {
  readonly evm: LocalEvm
  readonly solana: LocalSolana
  readonly sample: SampleSeller
  readonly seller: DemoSeller
  readonly tollgate: Tollgate
  readonly buyers: readonly DemoBuyer[]
  readonly link: { readonly url: string; readonly price: string }
  /** The same API at a price above what the demo's vault pays without asking. */
  readonly dearLink: { readonly url: string; readonly price: string }
  readonly freeLink: { readonly url: string }
  /** `?address=` of a wallet on either chain gets 5 USDC there. */
  readonly faucetLink: { readonly url: string }
  readonly apiKey: string
  /** Signs in to `/operator`. */
  readonly operatorToken: string
  /** Everything that the demo writes; gone with it. */
  readonly dataDir: string
  /** USDC in the seller's wallet on a network, in atomic units. */
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
/** Blocks as often as on Base: the time of the newest one is what a payment's validity is judged by. */
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

    onStep('Starting a sample API: the one that will be sold')
    const sample = await startSampleSeller(faucetOf(evm, solana), sampleAnswers)
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

    onStep('Opening a store by wallet signature, and putting the API behind a paid link')
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

/** Gives test money to whoever asks; an address that is none is told what was expected. */
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

/** Starts on the port asked for, or on a free one when somebody else has it. */
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
 * A port that nobody has now, the wanted one where it is free: the public URL names it, so it has to be known before the
 * gateway listens.
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
