import { Card } from '../components/card.ts'
import { Code } from '../components/codeBlock.ts'
import type { ApiClient } from '../desk/api.ts'
import { Load, useLoad } from '../desk/load.ts'
import { Title } from '../desk/title.ts'
import { html } from '../html.ts'

/** What the service was started with. */
export function Configuration({ ask }: { readonly ask: ApiClient }) {
  const config = useLoad(() => ask<object>('GET', '/api/operator/config'), [])
  return html`<div class="stack">
    <${Title}>Effective configuration<//>
    <${Card}>
      <p class="soft">With every default, as of the start, and without its secrets. What a reload of the plugins changed shows in the <a href="/operator/programs">programs</a>.</p>
      <${Load} of=${config}>${(data: object) => html`<${Code} title="configuration" code=${JSON.stringify(data, null, 2)} />`}<//>
    <//>
  </div>`
}
