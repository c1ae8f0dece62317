import { ApiFault } from '../desk/api.ts'
import { connectOwnWallet } from './ownWallet.ts'
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
    const { connected } = await connectOwnWallet(address, chain)
    const signature = await connected.signText(message)
    return patch({ ...body, [`${field}Proof`]: { message, signature } })
  }
}
