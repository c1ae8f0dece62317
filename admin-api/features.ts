import { nonceRoute } from './agent/nonceRoute.ts'
import { signupRoute } from './agent/signupRoute.ts'
import { avatarRoutes, pictureRoute } from './avatar/avatarRoutes.ts'
import { cardRoutes } from './cards/cardRoutes.ts'
import { buyRoute } from './checkout/buyRoute.ts'
import { checkoutRoute } from './checkout/checkoutRoute.ts'
import { payerRoute } from './checkout/payerRoute.ts'
import { widgetRoute } from './checkout/widgetRoute.ts'
import { dashboardPageRoute } from './dashboard/dashboardPageRoute.ts'
import { overviewRoutes } from './dashboard/overviewRoutes.ts'
import { sessionRoutes, signInRoutes } from './dashboard/sessionRoutes.ts'
import { discoveryRoutes, recountJob } from './discovery/discoveryRoutes.ts'
import { docsRoutes } from './docs/docsRoutes.ts'
import type { Feature } from './feature.ts'
import { feesRoute } from './fees/feesRoute.ts'
import { invoiceRoutes } from './fees/invoiceRoutes.ts'
import { statementPageRoute } from './fees/statementPageRoute.ts'
import { keyRoutes } from './keys/keyRoutes.ts'
import { importRoute } from './links/import/importRoute.ts'
import { linkHealthRoutes } from './links/linkHealthRoutes.ts'
import { linkRoutes } from './links/linkRoutes.ts'
import { mcpRoutes } from './mcp/mcpRoutes.ts'
import { operatorLiveRoute } from './operator/liveRoute.ts'
import { operatorPageRoute } from './operator/operatorPageRoute.ts'
import { operatorRoutes } from './operator/operatorRoutes.ts'
import { operatorSessionRoutes } from './operator/operatorSession.ts'
import { operatorProgramRoute } from './operator/programRoute.ts'
import { operatorSettlingRoute } from './operator/settlingRoute.ts'
import { operatorStatusRoutes } from './operator/statusRoute.ts'
import { operatorStoreRoutes } from './operator/storeRoutes.ts'
import { assetRoute } from './pages/assetRoute.ts'
import { pageRoutes } from './pages/pageRoutes.ts'
import { profileRoutes } from './profile/profileRoutes.ts'
import { purchaseRoutes } from './purchases/purchaseRoutes.ts'
import { refundRoute } from './refunds/refundRoute.ts'
import { reviewRoutes } from './reviews/reviewRoutes.ts'
import { confirmRoute } from './sessions/confirmRoute.ts'
import { expireSessions } from './sessions/expireSessions.ts'
import { paymentOfBuyerRoutes, paymentRoutes } from './sessions/paymentRoutes.ts'
import { payRoute } from './sessions/payRoute.ts'
import { sessionEventsRoute } from './sessions/sessionEvents.ts'
import { socialsRoute } from './socials/socialsRoute.ts'
import { statsRoute } from './stats/statsRoute.ts'
import { timeseriesRoute } from './stats/timeseriesRoute.ts'
import { storeHealthRoute } from './stores/storeHealthRoute.ts'
import { storeRoute } from './stores/storeRoute.ts'
import { deliverWebhooks } from './webhooks/deliverWebhooks.ts'
import { deliveryRoutes } from './webhooks/deliveryRoutes.ts'
import { webhookRoutes } from './webhooks/webhookRoutes.ts'
import { withdrawalRoutes } from './withdrawals/withdrawalRoutes.ts'

/** All that the control plane does, in the order of the API reference. A new feature is a folder and an entry here. */
export const features: readonly Feature[] = [
  { name: 'Agent', about: 'Sign up with a wallet.', publicRoutes: [nonceRoute, signupRoute] },
  { name: 'Keys', about: 'API keys of the own store.', storeRoutes: [keyRoutes] },
  {
    name: 'Dashboard',
    about: "What the service's own pages ask for a seller who signed in with a browser.",
    publicRoutes: [dashboardPageRoute, signInRoutes],
    storeRoutes: [sessionRoutes, overviewRoutes],
  },
  {
    name: 'Profile',
    about: 'The own store.',
    storeRoutes: [profileRoutes, avatarRoutes, socialsRoute],
    publicRoutes: [pictureRoute],
  },
  { name: 'Links', about: 'What the store sells.', storeRoutes: [linkRoutes, importRoute, linkHealthRoutes] },
  {
    name: 'Payments',
    about: 'Ask to be paid: sessions with a checkout.',
    publicRoutes: [paymentOfBuyerRoutes, sessionEventsRoute, payRoute],
    storeRoutes: [paymentRoutes, confirmRoute],
    jobs: [expireSessions],
  },
  { name: 'Purchases', about: 'What it sold.', storeRoutes: [purchaseRoutes] },
  { name: 'Refunds', about: 'What it paid back.', storeRoutes: [refundRoute] },
  {
    name: 'Webhooks',
    about: 'What the store hears of, and where.',
    storeRoutes: [webhookRoutes, deliveryRoutes],
    jobs: [deliverWebhooks],
  },
  {
    name: 'Fees',
    about: 'What it owes the platform.',
    publicRoutes: [statementPageRoute],
    storeRoutes: [feesRoute, invoiceRoutes],
  },
  { name: 'Stats', about: 'How it does.', storeRoutes: [statsRoute, timeseriesRoute] },
  {
    name: 'Checkout',
    about: 'Where buyers pay.',
    publicRoutes: [payerRoute, checkoutRoute, buyRoute, widgetRoute],
  },
  { name: 'Withdrawals', about: 'Nothing is held that could be.', storeRoutes: [withdrawalRoutes] },
  {
    name: 'Store',
    about: 'What anybody may see.',
    publicRoutes: [storeRoute, storeHealthRoute],
  },
  {
    name: 'Discovery',
    about: 'What strangers find.',
    publicRoutes: [discoveryRoutes],
    jobs: [recountJob],
  },
  { name: 'Reviews', about: 'What buyers say.', publicRoutes: [reviewRoutes] },
  {
    name: 'Operator',
    about: 'For whoever runs the service.',
    publicRoutes: [
      operatorRoutes,
      operatorPageRoute,
      operatorSessionRoutes,
      operatorStatusRoutes,
      operatorLiveRoute,
      operatorSettlingRoute,
      operatorStoreRoutes,
      operatorProgramRoute,
    ],
  },
  { name: 'Pages', publicRoutes: [assetRoute, cardRoutes, pageRoutes] },
  { name: 'MCP', publicRoutes: [mcpRoutes] },
  { name: 'Docs', publicRoutes: [docsRoutes] },
]

/** Of a process that leaves the admin API to another one: whether it lives, whether it can work, and how it does. */
export const ownFeatures: readonly Feature[] = [{ name: 'Operator', publicRoutes: [operatorRoutes] }]
