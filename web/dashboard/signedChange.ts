import { ApiFault } from '../desk/api.ts'
import { findWallets } from '../wallets/findWallets.ts'
import { connectWallet } from '../wallets/signText.ts'
import type { Wallet } from '../wallets/wallet.ts'
import type { ProfileAnswer } from './profileTypes.ts'
import { useSeller } from './seller.ts'

interface ToSign {
  readonly message: string
  readonly address: string
  readonly chain: 'base' | 'solana'
}

/**
 * Changes the profile, and has the store's wallet sign the change of one field where the API asks for that.
 *
 * @returns a function that throws {@link ApiFault}, and an error in words where no wallet of this browser can sign
 */
export function useSignedChange(field: 'payout' | 'username') {
  const { ask } = useSeller()
  const patch = (body: object) => ask<ProfileAnswer>('PATCH', '/api/v1/profile', body)
  return async (body: Readonly<Record<string, unknown>>): Promise<ProfileAnswer> => {
    try {
      return await patch(body)
    } catch (fault) {
      if (!(fault instanceof ApiFault) || fault.code !== 'WALLET_SIGNATURE_REQUIRED') throw fault
    }
    const path = `/api/v1/profile/${field}/nonce`
    const { message, address, chain } = await ask<ToSign>('POST', path, { [field]: body[field] })
    const signature = await signWith(address, chain, message)
    return patch({ ...body, [`${field}Proof`]: { message, signature } })
  }
}

/** Looks through the wallets of this browser for the one that has to sign. */
async function signWith(address: string, chain: ToSign['chain'], message: string): Promise<string> {
  const family = chain === 'base' ? 'eip155' : 'solana'
  const isSame = (other: string) =>
    chain === 'base' ? other.toLowerCase() === address.toLowerCase() : other === address
  for (const wallet of (await lookForWallets()).filter((one) => one.family === family)) {
    const connected = await connectWallet(wallet)
    if (isSame(connected.address)) return connected.signText(message)
  }
  throw new Error(
    `The wallet ${address} has to sign this, and no wallet of this browser is on that account. Choose it there and try again.`,
  )
}

/** Wallets tell of themselves within a moment. */
const LOOKING_MS = 600

function lookForWallets(): Promise<readonly Wallet[]> {
  let found: readonly Wallet[] = []
  const end = findWallets((wallets) => {
    found = wallets
  })
  return new Promise((resolve) =>
    setTimeout(() => {
      end()
      resolve(found)
    }, LOOKING_MS),
  )
}
