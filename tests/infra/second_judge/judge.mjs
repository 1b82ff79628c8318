// Reads policies and questions as JSON, and writes a verdict for each question: "Allowed",
// "ImplicitlyDenied", "ExplicitlyDenied", or what is wrong with the question or its policy.
import { readFileSync } from "node:fs";
import { runSimulation } from "@cloud-copilot/iam-simulate";

const { account, policies, questions } = JSON.parse(readFileSync(0, "utf8"));
const verdicts = [];
for (const { policy, action, resource, context } of questions) {
  const answer = await runSimulation(
    {
      request: {
        principal: `arn:aws:iam::${account}:role/function`,
        action,
        resource: { resource, accountId: account },
        contextVariables: context,
      },
      identityPolicies: [{ name: policy, policy: policies[policy] }],
      serviceControlPolicies: [],
      resourceControlPolicies: [],
    },
    {},
  );
  verdicts.push(answer.overallResult ?? JSON.stringify(answer.errors));
}
console.log(JSON.stringify(verdicts));
