/** Makes `<murmur-campaign>` known to the page, if there is one. */

import { MurmurCampaign } from "./element.js";

if (globalThis.customElements && !customElements.get("murmur-campaign")) {
  customElements.define("murmur-campaign", MurmurCampaign);
}

export { MurmurCampaign };
export type { Said } from "./element.js";
export { ENGLISH, type Texts } from "./texts.js";
