import { nonceRoute } from './agent/nonceRoute.ts'
import { signupRoute } from './agent/signupRoute.ts'
import { discoveryRoutes, recountJob } from './discovery/discoveryRoutes.ts'
import { docsRoutes } from './docs/docsRoutes.ts'
import type { Feature } from './feature.ts'
import { keyRoutes } from './keys/keyRoutes.ts'
import { linkHealthRoutes } from './links/linkHealthRoutes.ts'
import { linkRoutes } from './links/linkRoutes.ts'
import { operatorRoutes } from './operator/operatorRoutes.ts'
import { profileRoutes } from './profile/profileRoutes.ts'
import { purchaseRoutes } from './purchases/purchaseRoutes.ts'
import { refundRoute } from './refunds/refundRoute.ts'
import { reviewRoutes } from './reviews/reviewRoutes.ts'
import { statsRoute } from './stats/statsRoute.ts'
import { storePageRoute } from './stores/storePageRoute.ts'
import { storeRoute } from './stores/storeRoute.ts'
import { deliverWebhooks } from './webhooks/deliverWebhooks.ts'
import { deliveryRoutes } from './webhooks/deliveryRoutes.ts'
import { webhookRoutes } from './webhooks/webhookRoutes.ts'
import { withdrawalRoutes } from './withdrawals/withdrawalRoutes.ts'

/** All that the control plane does, in the order of the API reference. A new feature is a folder and an entry here. */
export const features: readonly Feature[] = [
  { name: 'Agent', about: 'Sign up with a wallet.', publicRoutes: [nonceRoute, signupRoute] },
  { name: 'Keys', about: 'API keys of the own store.', storeRoutes: [keyRoutes] },
  { name: 'Profile', about: 'The own store.', storeRoutes: [profileRoutes] },
  { name: 'Links', about: 'What the store sells.', storeRoutes: [linkRoutes, linkHealthRoutes] },
  { name: 'Purchases', about: 'What it sold.', storeRoutes: [purchaseRoutes] },
  { name: 'Refunds', about: 'What it paid back.', storeRoutes: [refundRoute] },
  {
    name: 'Webhooks',
    about: 'What the store hears of, and where.',
    storeRoutes: [webhookRoutes, deliveryRoutes],
    jobs: [deliverWebhooks],
  },
  { name: 'Stats', about: 'How it does.', storeRoutes: [statsRoute] },
  { name: 'Withdrawals', about: 'Nothing is held that could be.', storeRoutes: [withdrawalRoutes] },
  { name: 'Store', about: 'What anybody may see.', publicRoutes: [storeRoute, storePageRoute] },
  {
    name: 'Discovery',
    about: 'What strangers find.',
    publicRoutes: [discoveryRoutes],
    jobs: [recountJob],
  },
  { name: 'Reviews', about: 'What buyers say.', publicRoutes: [reviewRoutes] },
  { name: 'Operator', about: 'For whoever runs the service.', publicRoutes: [operatorRoutes] },
  { name: 'Docs', publicRoutes: [docsRoutes] },
]
