import { type Payout, payoutFor } from '../../../core/domain/link.ts'
import type { Api } from '../../deps.ts'

/** Whether a payout wallet fits one of the networks that can be paid on. */
export const canBePaid = (api: Pick<Api, 'assets'>, payout: Payout): boolean =>
  api.assets.some((asset) => payoutFor(payout, asset.network) !== null)
