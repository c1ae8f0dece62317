import type { AnyGatewayPlugin } from '../core/plugin/gateway.ts'
import health from './health/index.ts'
import metrics from './metrics/index.ts'
import purchaseRecord from './purchase-record/index.ts'
import rateLimit from './rate-limit/index.ts'
import replayGuard from './replay-guard/index.ts'
import upstream from './upstream/index.ts'
import x402 from './x402/index.ts'

/** The plugins that come with Tollgate. The configuration names them in `use:`. */
export const builtInPlugins: readonly AnyGatewayPlugin[] = [
  rateLimit,
  health,
  x402,
  replayGuard,
  upstream,
  purchaseRecord,
  metrics,
]
