/**
 * Caches the page's own files, so that an installed page opens and can show that the vault is not running. Network first, then
 * the cache: a new version shows at once. API responses are never cached.
 */
const worker = /** @type {any} */ (self)
const store = 'shell'
const folder = new URL('./', worker.location.href)

/** Every file of the page except this one; a test compares. */
const files = [
  './',
  'icon-192.png',
  'icon-512.png',
  'icon.svg',
  'main.js',
  'manifest.webmanifest',
  'page.css',
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
