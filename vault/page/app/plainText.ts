import { options, type VNode } from 'preact'
import { visibleText } from '../../../core/text/visibleText.ts'

/**
 * Makes every text that the page renders safe, from any source. Characters that are invisible, change the writing direction
 * or overlap their neighbors are written as code points. This function also prevents in all browsers that a text becomes
 * markup. Trusted Types do it only in browsers that support them.
 */
export function showTextsPlainly(): void {
  const before = options.vnode
  options.vnode = (node: VNode) => {
    before?.(node)
    const { type, props } = node as { type: unknown; props: unknown }
    if (type === null && typeof props === 'string') node.props = visibleText(props) as never
    else if (typeof type === 'string' && Object.hasOwn(props as object, 'dangerouslySetInnerHTML'))
      throw new TypeError('Expected text, got markup.')
  }
}

/** Lines of text as one element. {@link visibleText} alone would write line breaks as code points. */
export const visibleTextOfLines = (text: string): string => text.split('\n').map(visibleText).join('\n')
