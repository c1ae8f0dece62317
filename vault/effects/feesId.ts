import type { AssetRef } from './assets.ts'

/**
 * Under which name budgets count what goes to a chain's network: fees, and rent of accounts. It counts under the native
 * asset too, so that a limit of that one knows everything that leaves; this name keeps the fees apart from what is sent.
 *
 * @param native the native asset of the chain: `eip155:8453/slip44:60` gives `eip155:8453/slip44:60/fees`
 */
export const feesId = ({ id }: Pick<AssetRef, 'id'>): string => `${id}/fees`
