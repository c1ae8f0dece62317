import { findWallets } from '../wallets/findWallets.ts'
import { signPayment } from '../wallets/signPayment.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { Payer } from './payer.ts'

const words = {
  connecting: 'Connecting to your wallet …',
  checking: 'Checking your balance …',
  signing: 'Waiting for your signature …',
} as const

const found = new Map<string, Wallet>()

/** Pays with a wallet in this browser. */
export const browserPayer: Payer = {
  find: (onChange) =>
    findWallets((wallets) => {
      for (const wallet of wallets) found.set(wallet.id, wallet)
      onChange(wallets.map(({ id, name, icon, family }) => ({ id, name, icon, family })))
    }),
  async sign(walletId, offer, shown, assets, onStep) {
    const wallet = found.get(walletId)
    if (wallet === undefined) throw new Error('This wallet is no longer available. Reload the page.')
    const clockOffMs = await serverAheadMs()
    return await signPayment(wallet, offer, shown, assets, {
      nowSeconds: () => Math.floor((Date.now() + clockOffMs) / 1_000),
      queryPayer,
      onStep: (step) => onStep(words[step]),
    })
  },
}

/** The gateway's time minus this machine's, in ms. It is needed because the buyer's clock may be wrong. */
async function serverAheadMs(): Promise<number> {
  const { headers } = await fetch('/api/discover?limit=1', { method: 'HEAD', cache: 'no-store' })
  const now = Date.parse(headers.get('date') ?? '')
  return Number.isNaN(now) ? 0 : now - Date.now()
}

async function queryPayer(network: string, address: string, asset: string) {
  const response = await fetch(`/api/payer?${new URLSearchParams({ network, address, asset })}`)
  const { data, error } = (await response.json()) as {
    data?: { recentBlockhash: string; balanceAtomic: string }
    error?: { message: string }
  }
  if (data === undefined) throw new Error(error?.message ?? 'The network is not responding. Try again.')
  return { recentBlockhash: data.recentBlockhash, balanceAtomic: BigInt(data.balanceAtomic) }
}
