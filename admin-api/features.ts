import type { Feature } from './deps.ts'
import { assetRoute } from './http/pages.ts'
import { importRoute } from './links/import/importRoute.ts'
import { linkHealthRoutes } from './links/linkHealth.ts'
import { linkRoutes } from './links/linkRoutes.ts'
import { statsRoute, timeseriesRoute } from './links/stats.ts'
import { cardRoutes } from './market/cards/cardRoutes.ts'
import { discoveryRoutes, recountJob } from './market/discoveryRoutes.ts'
import { docsRoutes } from './market/docsRoutes.ts'
import { pageRoutes } from './market/pages.ts'
import { reviewRoutes } from './market/reviewRoutes.ts'
import { signerRoute } from './market/signerRoute.ts'
import { storeHealthRoute, storeRoute } from './market/storeRoutes.ts'
import { mcpRoutes } from './mcp/mcpRoutes.ts'
import { operatorLiveRoute } from './operator/liveCalls.ts'
import { operatorPageRoute, operatorRoutes, operatorSessionRoutes } from './operator/operatorRoutes.ts'
import { operatorPipelineRoute } from './operator/pipelineRoute.ts'
import { operatorSettlingRoute, operatorStatusRoutes } from './operator/statusRoute.ts'
import { operatorStoreRoutes } from './operator/storeRoutes.ts'
import { buyRoute, payerRoute } from './payments/buyRoutes.ts'
import { checkoutRoute, widgetRoute } from './payments/checkoutRoutes.ts'
import { confirmRoute } from './payments/confirmRoute.ts'
import { feesRoute } from './payments/fees.ts'
import { invoiceRoutes } from './payments/invoices.ts'
import { expireSessions, paymentOfBuyerRoutes, paymentRoutes } from './payments/paymentRoutes.ts'
import { payRoute } from './payments/payRoute.ts'
import { sessionEventsRoute } from './payments/sessionEvents.ts'
import { statementPageRoute } from './payments/statementPage.ts'
import { channelRoutes } from './purchases/channelRoutes.ts'
import { paymentStepsRoute } from './purchases/paymentSteps.ts'
import { purchaseRoutes, withdrawalRoutes } from './purchases/purchaseRoutes.ts'
import { receiptRoute } from './purchases/receiptRoute.ts'
import { refundRoute } from './purchases/refunds.ts'
import { storedResponseRoute } from './purchases/storedResponse.ts'
import { avatarRoutes, imageRoute } from './sellers/avatarRoutes.ts'
import { attentionRoute, dashboardPageRoute } from './sellers/dashboard.ts'
import { keyRoutes } from './sellers/keyRoutes.ts'
import { profileRoutes } from './sellers/profileRoutes.ts'
import { sessionRoutes, signInRoutes } from './sellers/signIn.ts'
import { nonceRoute, signupRoute } from './sellers/signUp.ts'
import { socialsRoute } from './sellers/socials.ts'
import { deliverWebhooks } from './webhooks/deliverWebhooks.ts'
import { deliveryRoutes } from './webhooks/deliveryRoutes.ts'
import { webhookRoutes } from './webhooks/webhookRoutes.ts'

/** All features of the control plane, in the order of the API reference. A new feature is a folder and an entry here. */
export const features: readonly Feature[] = [
  { name: 'Agent', about: 'Sign up or sign in with a wallet.', publicRoutes: [nonceRoute, signupRoute] },
  { name: 'Keys', about: 'The API keys of your store.', storeRoutes: [keyRoutes] },
  {
    name: 'Dashboard',
    about: 'Routes of the dashboard, for a seller who is signed in with a browser.',
    publicRoutes: [dashboardPageRoute, signInRoutes],
    storeRoutes: [sessionRoutes, attentionRoute, paymentStepsRoute],
  },
  {
    name: 'Profile',
    about: 'The profile of your store.',
    storeRoutes: [profileRoutes, avatarRoutes, socialsRoute],
    publicRoutes: [imageRoute],
  },
  {
    name: 'Links',
    about: 'The links that your store sells.',
    storeRoutes: [linkRoutes, importRoute, linkHealthRoutes],
  },
  {
    name: 'Payments',
    about: 'Payment sessions: payments of a fixed amount, with a checkout page.',
    publicRoutes: [paymentOfBuyerRoutes, sessionEventsRoute, payRoute],
    storeRoutes: [paymentRoutes, confirmRoute],
    jobs: [expireSessions],
  },
  {
    name: 'Purchases',
    about: 'The purchases of your store, and the responses that buyers read again.',
    publicRoutes: [receiptRoute, storedResponseRoute],
    storeRoutes: [purchaseRoutes],
  },
  {
    name: 'Channels',
    about: 'The payment channels from which buyers pay for calls of your links.',
    storeRoutes: [channelRoutes],
  },
  { name: 'Refunds', about: 'Refunds of your purchases.', storeRoutes: [refundRoute] },
  {
    name: 'Webhooks',
    about: 'Endpoints to which the gateway sends events, and the deliveries to them.',
    storeRoutes: [webhookRoutes, deliveryRoutes],
    jobs: [deliverWebhooks],
  },
  {
    name: 'Fees',
    about: 'The fees that your store owes the operator.',
    publicRoutes: [statementPageRoute],
    storeRoutes: [feesRoute, invoiceRoutes],
  },
  {
    name: 'Stats',
    about: 'Statistics of your store and its links.',
    storeRoutes: [statsRoute, timeseriesRoute],
  },
  {
    name: 'Checkout',
    about: 'Routes that the checkout page uses.',
    publicRoutes: [payerRoute, checkoutRoute, buyRoute, widgetRoute],
  },
  {
    name: 'Withdrawals',
    about: 'Withdrawals are not available, because buyers pay your wallets directly.',
    storeRoutes: [withdrawalRoutes],
  },
  {
    name: 'Store',
    about: 'Public data of a store and its links.',
    publicRoutes: [storeRoute, storeHealthRoute],
  },
  {
    name: 'Discovery',
    about: 'Public lists of the links for sale.',
    publicRoutes: [discoveryRoutes, signerRoute],
    jobs: [recountJob],
  },
  { name: 'Reviews', about: 'Reviews of purchases.', publicRoutes: [reviewRoutes] },
  {
    name: 'Operator',
    about: 'Routes for the operator of the service.',
    publicRoutes: [
      operatorRoutes,
      operatorPageRoute,
      operatorSessionRoutes,
      operatorStatusRoutes,
      operatorLiveRoute,
      operatorSettlingRoute,
      operatorStoreRoutes,
      operatorPipelineRoute,
    ],
  },
  { name: 'Pages', publicRoutes: [assetRoute, cardRoutes, pageRoutes] },
  { name: 'MCP', publicRoutes: [mcpRoutes] },
  { name: 'Docs', publicRoutes: [docsRoutes] },
]

/** Features of a process without the admin API, if another process runs it. They are liveness, readiness and metrics. */
export const ownFeatures: readonly Feature[] = [{ name: 'Operator', publicRoutes: [operatorRoutes] }]
