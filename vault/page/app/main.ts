import { render } from 'preact'
import { html } from '../../../web/html.ts'
import { InsideIsland } from '../../../web/island/island.ts'
import { App } from './app.ts'
import { drawAttention } from './approvals/attention.ts'
import { page } from './pageState.ts'
import { showTextsPlainly } from './plainText.ts'

showTextsPlainly()
drawAttention()
page.start()
const element = document.getElementById('page')!
element.replaceChildren()
render(html`<${InsideIsland.Provider} value=${true}><${App} /><//>`, element)

if ('serviceWorker' in navigator) {
  const { trustedTypes } = window as unknown as {
    trustedTypes?: {
      createPolicy(name: string, rules: object): { createScriptURL(url: string): string }
    }
  }
  const worker = 'sw.js'
  const policy = trustedTypes?.createPolicy('tollgate-worker', { createScriptURL: () => worker })
  void navigator.serviceWorker.register(policy?.createScriptURL('') ?? worker).catch(() => {})
}
