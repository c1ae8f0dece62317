import type { Eip1193, StandardWallet, Wallet } from './wallet.ts'

/** How long wallets have to announce themselves before `window.ethereum` is checked, in ms. */
const LEGACY_AFTER_MS = 400

/**
 * Finds the wallets in this browser, including those that appear later. It uses EIP-6963 for EVM and Wallet Standard for
 * Solana. A wallet's own browser may support neither, so `window.ethereum` is checked too. No wallet gets a request here.
 *
 * @param onChange called with all wallets, in the order in which they were found, whenever there are more
 * @returns a function that ends the search
 */
export function findWallets(onChange: (wallets: readonly Wallet[]) => void): () => void {
  const found = new Map<string, Wallet>()
  const add = (wallet: Wallet): void => {
    if (found.has(wallet.id)) return
    found.set(wallet.id, wallet)
    onChange([...found.values()])
  }
  const ends = [findEvm(add), findSolana(add)]
  return () => {
    for (const end of ends) end()
  }
}

type Add = (wallet: Wallet) => void

/** @see https://eips.ethereum.org/EIPS/eip-6963 */
function findEvm(add: Add): () => void {
  let isAnnounced = false
  const onAnnounce = (event: Event): void => {
    const { info, provider } = (event as CustomEvent<Announced>).detail ?? {}
    if (typeof info?.uuid !== 'string' || typeof provider?.request !== 'function') return
    isAnnounced = true
    add({
      id: `evm:${info.rdns || info.uuid}`,
      name: nameOf(info.name),
      icon: iconOf(info.icon),
      family: 'eip155',
      provider,
    })
  }
  addEventListener('eip6963:announceProvider', onAnnounce)
  dispatchEvent(new Event('eip6963:requestProvider'))
  const timer = setTimeout(() => {
    const { ethereum } = window as { ethereum?: Eip1193 }
    if (isAnnounced || typeof ethereum?.request !== 'function') return
    add({ id: 'evm:window', name: 'Browser wallet', icon: undefined, family: 'eip155', provider: ethereum })
  }, LEGACY_AFTER_MS)
  return () => {
    clearTimeout(timer)
    removeEventListener('eip6963:announceProvider', onAnnounce)
  }
}

interface Announced {
  readonly info: {
    readonly uuid: string
    readonly name: unknown
    readonly icon: unknown
    readonly rdns?: string
  }
  readonly provider: Eip1193
}

/** @see https://github.com/wallet-standard/wallet-standard, packages/core/base/src/window.ts */
function findSolana(add: Add): () => void {
  const register = (...wallets: readonly StandardWallet[]) => {
    for (const standard of wallets) {
      const isSolana = standard.chains?.some((chain) => chain.startsWith('solana:'))
      if (!isSolana || standard.features?.['standard:connect'] === undefined) continue
      const name = nameOf(standard.name)
      add({ id: `solana:${name}`, name, icon: iconOf(standard.icon), family: 'solana', standard })
    }
    return () => {}
  }
  const api = Object.freeze({ register })
  const onAnnounce = (event: Event): void => {
    const { detail } = event as CustomEvent<(given: typeof api) => void>
    if (typeof detail === 'function') detail(api)
  }
  addEventListener('wallet-standard:register-wallet', onAnnounce)
  dispatchEvent(Object.assign(new Event('wallet-standard:app-ready'), { detail: api }))
  return () => removeEventListener('wallet-standard:register-wallet', onAnnounce)
}

const nameOf = (name: unknown): string =>
  typeof name === 'string' && name.trim() !== '' ? name.trim().slice(0, 40) : 'Wallet'

/**
 * A wallet's icon, if it is embedded in the wallet. A URL would be fetched from another server, which would learn who pays
 * where.
 */
const iconOf = (icon: unknown): string | undefined =>
  typeof icon === 'string' && /^data:image\/(png|svg\+xml|webp|jpeg|gif)[;,]/.test(icon.trim())
    ? icon.trim()
    : undefined
