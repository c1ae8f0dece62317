import type { Test } from 'tap'
import { setPayout } from '../../../cli/runtime/createStore.ts'
import { examine } from '../../../cli/runtime/examine.ts'
import type { Finding } from '../../../cli/runtime/findings.ts'
import { readConfig } from '../../../cli/runtime/readConfig.ts'
import { startTollgate, type Tollgate } from '../../../cli/runtime/startTollgate.ts'
import type { Payout } from '../../../core/domain/link.ts'
import { silentLog } from '../../../core/ports/log.ts'
import { type Api, startApi } from './api.ts'
import { type Chain, type Chains, newSellerWallets, type SellerWallets, startChains } from './chains.ts'
import { type ConfigFile, type ConfigSections, writeConfig } from './config.ts'
import { openStore, type Store } from './store.ts'

/** The whole product in this process, on both chains, with an API to sell and a seller. */
export interface Product {
  readonly chains: Chains
  readonly config: ConfigFile
  readonly tollgate: Tollgate
  readonly api: Api
  readonly store: Store
  readonly wallets: SellerWallets
  readonly url: string
  /** The seller's wallet on a chain. */
  payTo(chain: Chain): string
  /** Link addresses; `path` tells the calls of several links apart. */
  addLink(slug: string, price?: string, more?: object): Promise<string>
  /** Changes the seller's wallets, as the operator does it beside the running gateway. */
  setPayout(to: Partial<Payout>): Promise<unknown>
  /** What `tollgate doctor` says. */
  doctor(): Promise<readonly Finding[]>
}

export async function startProduct(
  t: Pick<Test, 'teardown'>,
  parts: ConfigSections = {},
  given?: Chains,
): Promise<Product> {
  const chains = given ?? (await startChains(t))
  const config = await writeConfig(t, chains, parts)
  const tollgate = await startTollgate(await readConfig(config.file, chains.env), {
    env: chains.env,
    log: silentLog,
  })
  t.teardown(() => tollgate.close())
  const api = await startApi(t)
  const wallets = newSellerWallets(chains)
  const store = await openStore(config, chains.env, wallets)
  return {
    chains,
    config,
    tollgate,
    api,
    store,
    wallets,
    url: config.url,
    payTo: (chain) => (chain.name === 'evm' ? wallets.base : wallets.solana),
    addLink: (slug, price = '0.01', more = {}) =>
      store.addLink({ url: `${api.url}/${slug}`, slug, price, ...more }),
    setPayout: (to) => setPayout(config.file, chains.env, 'alice', to),
    doctor: () => examine(config.file, chains.env, { queriesChains: true }),
  }
}
