import { factsOf } from '../../core/domain/network.ts'
import type { Api } from '../deps.ts'
import { html } from '../http/html.ts'
import type { Page } from '../http/sendPage.ts'

/** What the service is, for a person who opens its address in a browser. */
export function indexPage(api: Pick<Api, 'serviceName' | 'publicUrl' | 'assets'>): Page {
  const { serviceName, publicUrl } = api
  const networks = [...new Set(api.assets.map((asset) => factsOf(asset.network)?.title ?? asset.network))]
  const description = 'Sell calls to an API you already run. Buyers pay per call in USDC, without an account.'
  const body = html`<main>
<h1>${serviceName}</h1>
<p class="lead">${description}</p>

<h2>For sellers</h2>
<ol class="cards">
<li><h3>Sign up with a wallet</h3><p>Ask <code>POST /api/agent/auth/nonce</code> for a text, sign it, send it to <code>POST /api/agent/signup</code>. You get a store and an API key.</p></li>
<li><h3>Put a price on your API</h3><p><code>POST /api/v1/links</code> with its url, a title and a price. Your code stays as it is.</p></li>
<li><h3>Get paid per call</h3><p>Buyers pay to your own wallet; <code>GET /api/v1/purchases</code> shows every sale.</p></li>
</ol>

<h2>For buyers</h2>
<p>Call a link with any x402 client. The first answer is 402 with the price; pay it and repeat the call.</p>
<pre>curl -i ${publicUrl}/api/link/&lt;seller&gt;/&lt;link&gt;</pre>
<p class="soft">${networks.length === 0 ? 'No network is configured for payments.' : `Payments on ${networks.join(', ')}.`}</p>

<h2>Documentation</h2>
<ul class="cards">
<li><h3><a href="/docs">API reference</a></h3><p>Every route, its fields and its answers.</p></li>
<li><h3><a href="/openapi.json">OpenAPI document</a></h3><p>The same for machines: OpenAPI 3.1.</p></li>
</ul>
</main>
<footer><p>x402 v2 · payments are final</p></footer>`
  return { title: serviceName, description, body }
}
