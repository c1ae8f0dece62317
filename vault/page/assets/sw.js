/**
 * Keeps the page's own files, so that an installed page opens and can say that the vault is not running. They are asked
 * for first and kept second: a new version shows at once. Answers of the API never come here.
 */
const worker = /** @type {any} */ (self)
const store = 'shell'
const folder = new URL('./', worker.location.href)

/** Every file of this folder but this one; a test compares. */
const files = [
  './',
  'activityWords.js',
  'attention.js',
  'dialog.js',
  'fields.js',
  'grants.js',
  'html.js',
  'icon-192.png',
  'icon-512.png',
  'icon.svg',
  'kinds.js',
  'main.js',
  'manifest.webmanifest',
  'page.css',
  'session.js',
  'stillness.js',
  'store.js',
  'stream.js',
  'views/activity.js',
  'views/agents.js',
  'views/approvalCard.js',
  'views/approvals.js',
  'views/budget.js',
  'views/pairing.js',
  'views/pairingOffer.js',
  'views/parts.js',
  'views/policies.js',
  'views/policyForm.js',
  'views/scopePicker.js',
  'views/signIn.js',
  'views/unlock.js',
  'views/vaultLimitsForm.js',
  'warnings.js',
  'words.js',
]

worker.addEventListener('install', (/** @type {any} */ event) => {
  worker.skipWaiting()
  event.waitUntil(caches.open(store).then((shell) => shell.addAll(files)))
})
worker.addEventListener('activate', (/** @type {any} */ event) => event.waitUntil(worker.clients.claim()))
worker.addEventListener('fetch', (/** @type {any} */ event) => {
  const url = new URL(event.request.url)
  const isOwnFile = url.origin === folder.origin && url.pathname.startsWith(folder.pathname)
  if (event.request.method === 'GET' && isOwnFile) event.respondWith(fresh(event.request))
})

/** @param {Request} request */
async function fresh(request) {
  const shell = await caches.open(store)
  try {
    const answer = await fetch(request)
    if (answer.ok) await shell.put(request, answer.clone())
    return answer
  } catch (error) {
    const kept = await shell.match(request, { ignoreSearch: true })
    if (kept !== undefined) return kept
    throw error
  }
}
